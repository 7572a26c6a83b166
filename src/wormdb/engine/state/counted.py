"""Ids that the counter of a collection may give, and those that it never would."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wormdb.engine.state.view import SEQUENCE_DIGITS_MAX
from wormdb.errors import LimitExceededError
from wormdb.format import json

if TYPE_CHECKING:
    from wormdb.schema.model import Model

__all__ = ["check_counted", "is_uncounted"]


def is_uncounted(identity: bytes) -> bool:
    """Whether an id, given as extended JSON, is of more digits than the counter of a collection ever gives."""
    digits = identity[1:-1]
    return identity[:1] == b'"' and len(digits) > SEQUENCE_DIGITS_MAX and digits.isdigit()


def check_counted(identity: bytes, model: Model | None) -> None:
    """Raise LimitExceededError if a new document's id is beyond the counter of a model whose ids are numbers.

    The counter would not see it. Documents that older releases wrote with such ids are left alone: no number is ever
    as long as they are.
    """
    if model is not None and model.id == "seq" and is_uncounted(identity):
        raise LimitExceededError(
            f"id {json.decode(identity, name='document id')[:60]!r} of a new document",
            reason=f"ids of this model are numbers of at most {SEQUENCE_DIGITS_MAX} digits",
            fix="choose a smaller number, or leave the id out",
        )
