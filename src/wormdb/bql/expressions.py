"""Expressions of aggregations, as MongoDB writes them: what a stage computes from a row.

    {"$multiply": ["$price", "$n"]}    {"$cond": [{"$gte": ["$stars", 4]}, "good", "poor"]}

A path has the values that `wormdb.bql.aggregation.value_of` says. An expression whose value is MISSING leaves its field
out. Functions of one row are in `wormdb.bql.expression_functions`; here are the forms that decide which of their
operands are computed, and those with variables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from wormdb.bql.aggregation import value_of
from wormdb.bql.expression_functions import FUNCTIONS, is_true, refuse
from wormdb.errors import InvalidRequestError
from wormdb.format.kinds import MISSING, Document
from wormdb.format.path import Path, parse_path
from wormdb.schema.problems import did_you_mean
from wormdb.settings import DOCUMENT_DEPTH_MAX

if TYPE_CHECKING:
    from wormdb.bql.mistakes import Mistakes

__all__ = ["Expression", "parse_expression", "read_path"]

Expression: TypeAlias = "Callable[[Document], Any]"
"""What a row gives: a normalized value, or MISSING."""

_Scope: TypeAlias = "Mapping[str, Any]"
"""Values of variables; `ROOT` is the row."""
_Scoped: TypeAlias = "Callable[[_Scope], Any]"

_NEVER: Final = "is computed by MongoDB's server; compute it in your program"


def parse_expression(written: Any, mistakes: Mistakes, at: str) -> Expression:
    """The expression that was written; mistakes are noted under `at`. No requests.

    It raises InvalidRequestError for a value that an operator does not take, and LimitExceededError for an integer over
    64 bits.
    """
    scoped = _ExpressionReader(mistakes).read(written, at, frozenset(), DOCUMENT_DEPTH_MAX)
    return lambda document: scoped({"ROOT": document})


def read_path(written: Any, mistakes: Mistakes, at: str) -> Path:
    """The path of "$a.b"; () and a mistake for anything else. `id` is `_id`. No requests."""
    if not isinstance(written, str) or not written.startswith("$") or written.startswith("$$"):
        mistakes.add(at, "it must be the path of a field, with a $", 'write "$tags"')
        return ()
    found: Any = mistakes.collect(at, lambda: parse_path(written[1:]))
    if found is MISSING:
        return ()
    return ("_id", *found[1:]) if found[0] == "id" else tuple(found)


class _ExpressionReader:
    """Reads expressions; one for each stage."""

    def __init__(self, mistakes: Mistakes) -> None:
        self._mistakes = mistakes
        self._forms: dict[str, Callable[[Any, str, frozenset[str], int], _Scoped]] = {
            "$literal": lambda operand, at, _, __: self._constant(operand, at),
            "$cond": self._cond,
            "$ifNull": self._if_null,
            "$switch": self._switch,
            "$and": lambda operand, at, names, depth: self._junction(operand, at, names, depth, ends=False),
            "$or": lambda operand, at, names, depth: self._junction(operand, at, names, depth, ends=True),
            "$filter": self._filter,
            "$map": self._map,
            "$reduce": self._reduce,
        }

    def read(self, written: Any, at: str, names: frozenset[str], depth: int) -> _Scoped:
        """One expression; `names` are the variables that it may use."""
        if depth == 0:
            self._mistakes.add(at, f"it is nested over {DOCUMENT_DEPTH_MAX} levels deep", "compute it in steps")
            return _missing
        if isinstance(written, str) and written.startswith("$"):
            return self._variable(written, at, names) if written.startswith("$$") else self._path(written, at)
        if isinstance(written, list | tuple):
            parts = [self.read(part, f"{at}[{place}]", names, depth - 1) for place, part in enumerate(written)]
            return lambda scope: [None if (value := part(scope)) is MISSING else value for part in parts]
        if not isinstance(written, Mapping):
            return self._constant(written, at)
        operators = [name for name in written if isinstance(name, str) and name.startswith("$")]
        if not operators:
            return self._document(written, at, names, depth)
        if len(written) > 1:
            self._mistakes.add(at, "an operator stands alone in its document", f'write {{"{operators[0]}": …}}')
            return _missing
        return self._operator(operators[0], written[operators[0]], f"{at}.{operators[0]}", names, depth - 1)

    # --- values ---

    def _path(self, written: str, at: str) -> _Scoped:
        path = read_path(written, self._mistakes, at)
        return (lambda scope: value_of(scope["ROOT"], path)) if path else _missing

    def _variable(self, written: str, at: str, names: frozenset[str]) -> _Scoped:
        name, _, rest = written[2:].partition(".")
        if name == "REMOVE" and not rest:
            return _missing
        if name not in names and name not in {"ROOT", "CURRENT"}:
            self._mistakes.add(at, f"there is no variable $${name}", did_you_mean(name, ("ROOT", "REMOVE", *names)))
            return _missing
        if name in {"ROOT", "CURRENT"}:
            return self._path(f"${rest}", at) if rest else lambda scope: scope["ROOT"]
        if not rest:
            return lambda scope: scope.get(name, MISSING)
        path: Any = self._mistakes.collect(at, lambda: parse_path(rest))
        if path is MISSING:
            return _missing
        return lambda scope: value_of({"this": scope.get(name)}, ("this", *path))

    def _constant(self, written: Any, at: str) -> _Scoped:
        value = self._mistakes.value(at, written)
        return lambda _: value

    def _document(self, written: Mapping[Any, Any], at: str, names: frozenset[str], depth: int) -> _Scoped:
        for name in written:
            self._mistakes.collect(f"{at}.{name}", lambda: _check_name(name))  # noqa: B023 - called at once
        parts = {str(name): self.read(part, f"{at}.{name}", names, depth - 1) for name, part in written.items()}

        def made(scope: _Scope) -> Document:
            values = {name: part(scope) for name, part in parts.items()}
            return {name: value for name, value in values.items() if value is not MISSING}

        return made

    def _operator(self, name: str, operand: Any, at: str, names: frozenset[str], depth: int) -> _Scoped:
        form = self._forms.get(name)
        if form is not None:
            return form(operand, at, names, depth)
        function = FUNCTIONS.get(name)
        if function is None:
            known = (*self._forms, *FUNCTIONS)
            fix = _NEVER if name in {"$function", "$accumulator"} else did_you_mean(name, known)
            self._mistakes.add(at, f"there is no operator {name} of expressions", fix)
            return _missing
        if function.options is not None:
            return self._with_options(name, operand, at, names, depth)
        written = operand if isinstance(operand, list | tuple) else [operand]
        if not function.least <= len(written) <= function.most:
            self._mistakes.add(at, f"it has {len(written)} operands", function.fix)
            return _missing
        parts = [self.read(part, f"{at}[{place}]", names, depth) for place, part in enumerate(written)]
        work = function.work
        return lambda scope: work(*[part(scope) for part in parts])

    def _with_options(self, name: str, operand: Any, at: str, names: frozenset[str], depth: int) -> _Scoped:
        function = FUNCTIONS[name]
        assert function.options is not None
        parts = self._options(operand, at, names, depth, function.options, fix=function.fix)
        if parts is None:
            return _missing
        return lambda scope: function.work(**{option: part(scope) for option, part in parts.items()})

    def _options(
        self,
        operand: Any,
        at: str,
        names: frozenset[str],
        depth: int,
        options: Mapping[str, bool],
        *,
        fix: str,
    ) -> dict[str, _Scoped] | None:
        """The expressions of named options, of which `options` says whether each must be there; None if one is not."""
        if not isinstance(operand, Mapping):
            self._mistakes.add(at, "it must be a document of options", fix)
            return None
        for option in operand:
            if option not in options:
                self._mistakes.add(
                    f"{at}.{option}", "there is no such option", did_you_mean(str(option), tuple(options))
                )
        lacking = [option for option, is_needed in options.items() if is_needed and option not in operand]
        if lacking:
            self._mistakes.add(at, f"it has no {lacking[0]}", fix)
            return None
        return {
            option: self.read(operand[option], f"{at}.{option}", names, depth)
            for option in options
            if option in operand
        }

    # --- forms that decide what is computed ---

    def _cond(self, operand: Any, at: str, names: frozenset[str], depth: int) -> _Scoped:
        fix = 'write {"$cond": [condition, then, else]}'
        if isinstance(operand, list | tuple):
            if len(operand) != 3:
                self._mistakes.add(at, f"it has {len(operand)} operands", fix)
                return _missing
            operand = dict(zip(("if", "then", "else"), operand, strict=True))
        parts = self._options(operand, at, names, depth, dict.fromkeys(("if", "then", "else"), True), fix=fix)
        if parts is None:
            return _missing
        test, then, otherwise = parts["if"], parts["then"], parts["else"]
        return lambda scope: then(scope) if is_true(test(scope)) else otherwise(scope)

    def _if_null(self, operand: Any, at: str, names: frozenset[str], depth: int) -> _Scoped:
        if not isinstance(operand, list | tuple) or len(operand) < 2:
            self._mistakes.add(at, "it has a list of values", 'write {"$ifNull": ["$a", 0]}')
            return _missing
        *parts, last = [self.read(part, f"{at}[{place}]", names, depth) for place, part in enumerate(operand)]

        def first(scope: _Scope) -> Any:
            for part in parts:
                value = part(scope)
                if value is not None and value is not MISSING:
                    return value
            return last(scope)

        return first

    def _switch(self, operand: Any, at: str, names: frozenset[str], depth: int) -> _Scoped:
        fix = 'write {"branches": [{"case": …, "then": …}], "default": …}'
        branches = operand.get("branches") if isinstance(operand, Mapping) else None
        if not isinstance(branches, list | tuple) or not branches or operand.keys() - {"branches", "default"}:
            self._mistakes.add(at, "it has a list of branches, and a default", fix)
            return _missing
        both = {"case": True, "then": True}
        read = [
            self._options(branch, f"{at}.branches[{place}]", names, depth, both, fix=fix)
            for place, branch in enumerate(branches)
        ]
        pairs = [(parts["case"], parts["then"]) for parts in read if parts is not None]
        default = self.read(operand["default"], f"{at}.default", names, depth) if "default" in operand else None

        def chosen(scope: _Scope) -> Any:
            for case, then in pairs:
                if is_true(case(scope)):
                    return then(scope)
            if default is None:
                refuse("$switch", "no branch is true, and there is no default", "give it a default")
            return default(scope)

        return chosen

    def _junction(self, operand: Any, at: str, names: frozenset[str], depth: int, *, ends: bool) -> _Scoped:
        written = operand if isinstance(operand, list | tuple) else [operand]
        parts = [self.read(part, f"{at}[{place}]", names, depth) for place, part in enumerate(written)]

        def joined(scope: _Scope) -> bool:
            for part in parts:
                if is_true(part(scope)) is ends:
                    return ends
            return not ends

        return joined

    # --- forms with variables ---

    def _filter(self, operand: Any, at: str, names: frozenset[str], depth: int) -> _Scoped:
        fix = 'write {"input": "$tags", "as": "tag", "cond": …}'
        found = self._over(operand, at, names, depth, "cond", fix)
        if found is None:
            return _missing
        source, name, test = found

        def kept(scope: _Scope) -> Any:
            items = _items("$filter", source(scope))
            return None if items is None else [item for item in items if is_true(test({**scope, name: item}))]

        return kept

    def _map(self, operand: Any, at: str, names: frozenset[str], depth: int) -> _Scoped:
        found = self._over(operand, at, names, depth, "in", 'write {"input": "$tags", "as": "tag", "in": …}')
        if found is None:
            return _missing
        source, name, each = found

        def mapped(scope: _Scope) -> Any:
            items = _items("$map", source(scope))
            if items is None:
                return None
            values = (each({**scope, name: item}) for item in items)
            return [None if value is MISSING else value for value in values]

        return mapped

    def _over(
        self, operand: Any, at: str, names: frozenset[str], depth: int, inner: str, fix: str
    ) -> tuple[_Scoped, str, _Scoped] | None:
        """What is gone through, the variable that has each element, and the expression of it."""
        given = dict(operand) if isinstance(operand, Mapping) else operand
        name = given.pop("as", "this") if isinstance(given, dict) else "this"
        if not isinstance(name, str) or not name.isidentifier():
            self._mistakes.add(f"{at}.as", "it must be the name of a variable", 'write "item"')
            return None
        outer = self._options(given, at, names | {name}, depth, {"input": True, inner: True}, fix=fix)
        if outer is None:
            return None
        return outer["input"], name, outer[inner]

    def _reduce(self, operand: Any, at: str, names: frozenset[str], depth: int) -> _Scoped:
        fix = 'write {"input": "$a", "initialValue": 0, "in": {"$add": ["$$value", "$$this"]}}'
        options = {"input": True, "initialValue": True, "in": True}
        parts = self._options(operand, at, names | {"value", "this"}, depth, options, fix=fix)
        if parts is None:
            return _missing
        source, first, step = parts["input"], parts["initialValue"], parts["in"]

        def reduced(scope: _Scope) -> Any:
            items = _items("$reduce", source(scope))
            if items is None:
                return None
            value = first(scope)
            for item in items:
                value = step({**scope, "value": value, "this": item})
            return value

        return reduced


def _missing(_: _Scope) -> Any:
    return MISSING


def _items(name: str, value: Any) -> list[Any] | None:
    if value is None or value is MISSING:
        return None
    if type(value) is not list:
        refuse(name, f"its input must be an array, not {type(value).__name__}", 'write {"$ifNull": ["$a", []]}')
    return value


def _check_name(name: Any) -> None:
    if not isinstance(name, str) or len(parse_path(name)) != 1:
        raise InvalidRequestError(f"field {name!r:.60}", reason="it must be one name", fix="write a document in it")
