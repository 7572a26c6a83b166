"""What a prepared transaction holds, compared with a model that knows documents and predicates, and no code of ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.engine.rig import doc, ident
from wormdb.engine.state.definition import Definition
from wormdb.engine.state.prepared import Footprint, Prepared, after_events
from wormdb.engine.state.view import id_key
from wormdb.errors import CorruptionError
from wormdb.format.change import LoggedBatch, LoggedChange
from wormdb.format.event import SchemaChanged, TransactionFinished, TransactionPrepared
from wormdb.system.types import LogNumber, WriteId

if TYPE_CHECKING:
    from collections.abc import Sequence

MODEL = b'{"Account":{"path":"@accounts/(id:string)","indexes":{"byMail":{"field":"mail","unique":true}}}}'
UNIQUE = Definition.none().after((SchemaChanged(definition=MODEL, empty=True),), LogNumber(1))
PLAIN = Definition.none()

NAMES = st.sampled_from("abcdefgh")
FIELDS = st.fixed_dictionaries({"n": st.integers(0, 2)}, optional={"mail": st.sampled_from("pq")})
IMAGES = st.none() | FIELDS


@dataclass(frozen=True)
class Part:
    """A transaction or a batch in words of the model: by id what was before and is after, what was read, and how."""

    changes: dict[str, tuple[dict[str, Any] | None, dict[str, Any] | None]]
    reads: frozenset[str]
    above: tuple[int, ...]
    """Thresholds: it has read all documents with a greater n."""

    def values(self) -> set[str]:
        """The mail addresses that change hands or stay with documents that it writes."""
        images = [image for pair in self.changes.values() for image in pair if image is not None]
        return {image["mail"] for image in images if "mail" in image}

    def finds(self, other: Part) -> bool:
        """Whether a predicate of this one matches an image of the other."""
        images = [image for pair in other.changes.values() for image in pair if image is not None]
        return any(image["n"] > bound for image in images for bound in self.above)


def is_apart(one: Part, other: Part, *, unique: bool) -> bool:
    """The model: whether two may come in any order and leave the same, having read the same."""
    wrote, also = set(one.changes), set(other.changes)
    if wrote & also or wrote & other.reads or also & one.reads:
        return False
    if one.finds(other) or other.finds(one):
        return False
    return not (unique and one.values() & other.values())


@st.composite
def parts(draw: st.DrawFn) -> Part:
    names = draw(st.lists(NAMES, max_size=2, unique=True))
    changes = {}
    for name in names:
        before, after = draw(IMAGES), draw(IMAGES)
        changes[name] = (before, after) if before or after else (None, {"n": 0})
    reads = frozenset(draw(st.lists(NAMES, max_size=2)))
    return Part(changes, reads, tuple(draw(st.lists(st.integers(0, 2), max_size=1))))


def logged(part: Part) -> tuple[LoggedChange, ...]:
    def image(name: str, values: dict[str, Any] | None) -> bytes | None:
        return None if values is None else doc(name, **values)

    return tuple(
        LoggedChange(id=ident(name), seq=1, before=image(name, before), after=image(name, after))
        for name, (before, after) in part.changes.items()
    )


def filters(part: Part) -> tuple[str, ...]:
    return tuple(f'{{"n":{{"$gt":{bound}}}}}' for bound in part.above)


def prepared(part: Part, number: int = 2, tx: str = "1" * 32) -> Prepared:
    event = TransactionPrepared(
        tx=WriteId(tx),
        participants=("a/",),
        batch=LoggedBatch(id=WriteId("2" * 32), changes=logged(part)),
        reads=tuple(ident(name) for name in sorted(part.reads)),
        filters=filters(part),
    )
    return Prepared(LogNumber(number), event)


def footprint(part: Part) -> Footprint:
    return Footprint(
        written={id_key(ident(name)) for name in part.changes},
        read={id_key(ident(name)) for name in part.reads},
        filters=filters(part),
        changes=logged(part),
    )


@settings(max_examples=400)
@given(parts(), parts(), st.booleans())
def test_it_stands_before_exactly_what_does_not_commute_with_it(one: Part, other: Part, unique: bool) -> None:
    definition = UNIQUE if unique else PLAIN
    is_free = not prepared(one).stands_before(footprint(other), definition)
    assert is_free == is_apart(one, other, unique=unique)


@given(parts())
def test_what_may_have_read_anything_waits_for_all_that_write(one: Part) -> None:
    assert prepared(one).stands_before(Footprint(reads_all=True), PLAIN) == bool(one.changes)


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=12))
def test_what_is_pending_is_what_was_prepared_and_not_finished(steps: Sequence[tuple[int, bool]]) -> None:
    pending: tuple[Prepared, ...] = ()
    expected: list[str] = []
    for number, (name, ends) in enumerate(steps, 1):
        tx = WriteId(f"{name:032x}")
        if ends and tx in expected:
            expected.remove(tx)
            pending = after_events(pending, (TransactionFinished(tx=tx),), LogNumber(number), collection="a/")
        elif ends:
            with pytest.raises(CorruptionError):
                after_events(pending, (TransactionFinished(tx=tx),), LogNumber(number), collection="a/")
        elif tx not in expected:
            expected.append(tx)
            event = prepared(Part({}, frozenset(), ()), tx=tx).event
            pending = after_events(pending, (event,), LogNumber(number), collection="a/")
        assert [one.id for one in pending] == expected
