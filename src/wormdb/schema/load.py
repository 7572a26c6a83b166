"""From schema.json to a Schema, with every mistake reported at once.

Reading happens in two steps: this module checks each key against the table of
`wormdb.schema.keys` and builds definitions from what is sound; `wormdb.schema.rules` then checks
what depends on several places. A part with a mistake is replaced by its default, so that the
checks after it do not complain about the same thing again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wormdb.errors import SchemaError
from wormdb.schema.build import SchemaBuilder
from wormdb.schema.report import ProblemReport
from wormdb.schema.rules import check_rules
from wormdb.schema.text import UNREADABLE, read_source

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wormdb.errors import Problem
    from wormdb.schema.model import Model, Schema

__all__ = ["SchemaCheck", "check_schema", "load_model", "load_schema"]


@dataclass(frozen=True, slots=True)
class SchemaCheck:
    """What `check_schema` found; `schema` is None if there is an error among the problems."""

    schema: Schema | None
    problems: tuple[Problem, ...]

    @property
    def errors(self) -> tuple[Problem, ...]:
        """The problems that make the schema unusable."""
        return tuple(problem for problem in self.problems if problem.severity == "error")

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """The problems that do not."""
        return tuple(problem for problem in self.problems if problem.severity == "warning")


def check_schema(source: str | bytes | Mapping[str, Any]) -> SchemaCheck:
    """Read a schema and report everything about it, errors first; raises nothing. No requests."""
    report = ProblemReport()
    raw = read_source(source, report)
    if raw is UNREADABLE:
        return SchemaCheck(None, report.problems)
    schema = SchemaBuilder(report).schema(raw)
    if schema is not None:
        models = raw.get("models")
        check_rules(schema, report, declared=models if isinstance(models, dict) else ())
    return SchemaCheck(None if report.errors else schema, report.problems)


def load_schema(source: str | bytes | Mapping[str, Any], *, name: str = "schema") -> Schema:
    """Read a schema; raises SchemaError listing every error. Warnings are for `worm lint`. No requests."""
    checked = check_schema(source)
    if checked.schema is None:
        raise SchemaError(name, problems=checked.errors)
    return checked.schema


def load_model(name: str, source: str | bytes | Mapping[str, Any]) -> Model:
    """Read one model by itself, as `Model.to_json` wrote it; references to other models are not followed.

    Raises SchemaError listing every error. No requests.
    """
    report = ProblemReport()
    raw = read_source(source, report)
    if raw is not UNREADABLE:
        model = SchemaBuilder(report).model(name, raw, f"models.{name}")
        if model is not None:
            check_rules(model, report)
            if not report.errors:
                return model
    raise SchemaError(f"model {name}", problems=report.errors)
