"""What others answer: mongomock and montydb in this process, mingo by a script for Node.

An oracle is silent (None) where it cannot be asked: it lacks a type or an operator, or it breaks down.
"""

from __future__ import annotations

import copy
import gc
import json
import math
import re
import subprocess
import sys
import warnings
from contextlib import contextmanager
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bson import Binary, Decimal128, MaxKey, MinKey, ObjectId, Regex, Timestamp

from tests.bql.corpus.questions import REFUSED
from tests.bql.others import MONTY, mock_filtering, mongomock, monty_queries
from wormdb.format.json import encode, parse
from wormdb.format.wrappers import regex_options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tests.bql.corpus.questions import Question

_NUMBERS: Final = count()
UNDEFINED: Final = json.dumps({"$undefined": True})
_REFUSALS: Final = ("OperationFailure", "WriteError", "ValueError", "FieldParseError", "BadValueError",
    "InvalidOperation")  # fmt: skip
_BEYOND_MINGO: Final = (Decimal128, ObjectId, Timestamp, bytes, Binary, MinKey, MaxKey)


def ask_mongomock(question: Question) -> Any:
    """What mongomock says."""
    for part in _parts(question.__dict__):
        if isinstance(part, MinKey | MaxKey):
            return None  # it cannot compare them
        if isinstance(part, dict) and isinstance(part.get("$sort"), dict) and len(part["$sort"]) > 1:
            return None  # its order depends on the hashes of names
    return _opinion(question, _mock_filter, lambda: mongomock.MongoClient().db.documents)


def ask_montydb(question: Question) -> Any:
    """What montydb says."""
    return _opinion(question, _monty_filter, lambda: MONTY.db[f"corpus{next(_NUMBERS)}"])


@contextmanager
def quietly() -> Iterator[None]:
    """Around questions to montydb, whose generators complain when they are let go of: here, and not in another test."""
    hook = sys.unraisablehook
    sys.unraisablehook = lambda _: None
    try:
        yield
        gc.collect()
    finally:
        sys.unraisablehook = hook


def ask_mingo(folder: str, questions: list[Question]) -> list[Any]:
    """What the mingo that is installed in a folder says to all of them."""
    fitting = [_for_mingo(question) for question in questions]
    asked = [number for number, question in enumerate(fitting) if question is not None]
    sent = [json.loads(encode(fitting[number])) for number in asked]
    script = Path(__file__).parent / "evaluate.cjs"
    done = subprocess.run(
        ["node", str(script), folder], input=json.dumps(sent), capture_output=True, text=True, check=True
    )
    answers: list[Any] = [None] * len(questions)
    for number, found in zip(asked, json.loads(done.stdout), strict=True):
        told = isinstance(found, dict) and "error" in found
        answers[number] = REFUSED if told else parse(json.dumps(found).replace(UNDEFINED, "null"), operators=True)
        if not told and questions[number].kind == "find":
            known = [document["_id"] for document in fitting[number]["documents"]]
            answers[number] = {"ids": answers[number], "known": known}
    return answers


def _for_mingo(question: Question) -> Any:
    """The question as it is sent, of a filter with those documents alone that JavaScript can hold; or None."""
    asked = {name: value for name, value in question.__dict__.items() if name != "upsert"}
    if question.kind == "find":
        asked["documents"] = [document for document in question.documents if _fits_mingo(document)]
    silent = question.upsert or "$currentDate" in question.update or not _fits_mingo(asked)
    return None if silent or not asked["documents"] else asked


def _fits_mingo(value: Any) -> bool:
    return not any(
        isinstance(part, _BEYOND_MINGO) or (isinstance(part, int) and abs(part) > 2**53) for part in _parts(value)
    )


def _parts(value: Any) -> Iterable[Any]:
    yield value
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for part in inner:
        yield from _parts(part)


def _opinion(question: Question, applies: Callable[[Any, Any], bool], make: Callable[[], Any]) -> Any:
    try:
        asked = _in_python(question.__dict__)
    except (re.error, ValueError):
        return None  # no pattern of Python's
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if question.kind == "find":
                return _found(asked, applies)
            return _from_python(_in_collection(asked, make()))
    except Exception as error:  # noqa: BLE001 - whatever happens in there, it is no answer
        return REFUSED if any(kind.__name__ in _REFUSALS for kind in type(error).__mro__) else None


def _found(asked: dict[str, Any], applies: Callable[[Any, Any], bool]) -> dict[str, list[Any]]:
    """The ids that match, and those of which it can be asked: it may break down at a value that it lacks."""
    found: dict[str, list[Any]] = {"ids": [], "known": []}
    for document in asked["documents"]:
        try:
            matches = applies(asked["filter"], document)
        except (TypeError, AttributeError, NotImplementedError, KeyError, IndexError):
            continue
        found["known"].append(document["_id"])
        if matches:
            found["ids"].append(document["_id"])
    return found


def _in_collection(asked: dict[str, Any], collection: Any) -> Any:
    collection.insert_many(copy.deepcopy(asked["documents"]))
    if asked["kind"] == "sort":
        return [document["_id"] for document in collection.find(asked["filter"]).sort(list(asked["sort"].items()))]
    if asked["kind"] == "select":
        return list(collection.find(asked["filter"], asked["select"]))
    change = collection.update_many if asked["many"] else collection.update_one
    extra = {"array_filters": asked["filters"]} if asked["filters"] else {}
    change(asked["filter"], asked["update"], upsert=asked["upsert"], **extra)
    return list(collection.find({}))


def _mock_filter(written: Any, document: Any) -> bool:
    return bool(mock_filtering.filter_applies(written, document))


def _monty_filter(written: Any, document: Any) -> bool:
    return bool(monty_queries.QueryFilter(written)(document))


def _in_python(value: Any) -> Any:
    if isinstance(value, Regex):
        return re.compile(value.pattern, sum(getattr(re,
            letter.upper()) for letter in regex_options(value) if letter != "u"))  # fmt: skip
    if isinstance(value, dict):
        return {name: _in_python(item) for name, item in value.items()}
    return [_in_python(item) for item in value] if isinstance(value, list) else value


def _from_python(value: Any) -> Any:
    if isinstance(value, re.Pattern):
        return Regex.from_native(value)
    if isinstance(value, dict):
        return {name: _from_python(item) for name, item in value.items()}
    return [_from_python(item) for item in value] if isinstance(value, list) else value


# --- whether two answers are the same ---


def agrees(ours: Any, theirs: Any) -> bool | None:
    """Whether an oracle says the same, whatever the type of a number and the order of fields; None if it is silent."""
    if theirs is None:
        return None
    if isinstance(theirs, dict):
        if not theirs["known"]:
            return None
        if ours == REFUSED:
            return False
        return bool([identity for identity in ours if identity in theirs["known"]] == theirs["ids"])
    return is_same(ours, theirs, loose=True)


def is_same(a: Any, b: Any, *, loose: bool) -> bool:
    """Whether two answers are the same; `loose`: as JavaScript and Python would say, whatever the type of a number."""
    return bool(_plain(a, loose=loose) == _plain(b, loose=loose))


def _plain(value: Any, *, loose: bool) -> Any:
    if isinstance(value, dict):
        items = [(name, _plain(item, loose=loose)) for name, item in value.items()]
        return ("document", tuple(sorted(items) if loose else items))
    if isinstance(value, list):
        return ("array", tuple(_plain(item, loose=loose) for item in value))
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    if loose and isinstance(value, float) and value.is_integer():
        value = int(value)
    return (type(value).__name__, str(value))
