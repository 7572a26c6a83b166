"""Ids are data: whatever they look like, they name one document each and no place outside their collection."""

from __future__ import annotations

import itertools
import unicodedata
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import wormdb
from wormdb.errors import InvalidRequestError, LimitExceededError
from wormdb.format.segment import decode_segment, encode_segment
from wormdb.settings import ID_BYTES_MAX, SEGMENT_BYTES_MAX

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = {
    "schemaVersion": "1.0",
    "sourceOfTruth": "remote",
    "models": {"Thing": {"path": "#org/@things/(id:any)/[thing].json"}},
}
PARTS = ["..", ".", "/", "\\", "%2e%2e", "%00", "%", "~", " ", ":", "*", "?", "$", "#", "a", "A"]
NAMES = [
    ".worm",
    ".worm.db",
    ".worm.schema.json",
    ".worm.probe",
    ".trash",
    ".oplog",
    "block0",
    "CON",
    "nul.txt",
    "COM1",
    "con",
    "aux.",
    "-rf",
    "--help",
    "`id`",
    "$(id)",
    "';--",
    "\u202egnp.exe",
    "\ufeffbom",
    "\u00e9",
    "e\u0301",
    "\u0430dmin",
    "admin",
    "ADMIN",
    "\u2025/\u2025",
    "\uff0e\uff0e\uff0f",
    "\U0001f600",
    "a\tb",
    "a\nb",
    "a\x7fb",
    "\x01",
    "constructor",
    "__proto__",
    "x" * 255,
    "\u00fc" * 250,
    "x" * ID_BYTES_MAX,
]
SHORT = ["".join(parts) for size in (1, 2) for parts in itertools.product(PARTS, repeat=size)]
LONG = ["".join(parts) for parts in itertools.product(PARTS[:9], repeat=3)]


def test_hostile_ids_stay_in_their_collection_and_apart(tmp_path: Path) -> None:
    root, beside = tmp_path / "db", tmp_path / "beside"
    beside.mkdir()
    ids = list(dict.fromkeys(NAMES + SHORT[::7]))
    with wormdb.connect(root, schema=SCHEMA) as database:
        things = database.model("Thing")
        kept = [name for name in ids if _can_be(things, name)]
        things.insert_many([{"id": name, "seen": name} for name in kept])
        database.forward()
        assert all(_field(things, name, "seen") == name for name in kept[::7])
        assert {document["seen"] for document in things.find_all()} == {*kept}
        assert database.verify()[0].is_sound
    # No text is refused for what it looks like, only for a name of a file that would be too long.
    assert all(len(name.encode()) > SEGMENT_BYTES_MAX for name in {*ids} - {*kept})
    assert [*beside.iterdir()] == []
    assert {path.name for path in tmp_path.iterdir()} == {"db", "beside"}
    collection = (root / "org" / "things").resolve()
    documents = [*root.rglob("thing.json")]
    assert len(documents) == len(kept)
    assert {path.resolve().parent.parent for path in documents} == {collection}


def _field(things: wormdb.Collection[wormdb.Document], name: Any, field: str) -> Any:
    found = things.find_by_id(name)
    assert found is not None
    return found[field]


def _can_be(things: Any, name: str) -> bool:
    """Whether a document can have this id."""
    try:
        things.find_by_id(name)
    except InvalidRequestError:
        return False
    return True


def test_a_thousand_hostile_ids_have_a_thousand_harmless_names() -> None:
    ids = [name for name in dict.fromkeys(NAMES + SHORT + LONG) if len(name) <= 80]
    assert len(ids) >= 1_000 - 10
    assert len({encode_segment(name) for name in ids}) == len(ids)
    for name in ids:
        _check_segment(name, encode_segment(name))


def _check_segment(name: str, segment: str) -> None:
    assert decode_segment(segment) == name
    assert "/" not in segment
    assert not segment.startswith(".")
    assert segment
    assert segment.isascii()
    assert segment.isprintable()
    assert len(segment) <= SEGMENT_BYTES_MAX


@given(st.text(max_size=80))
def test_a_key_tells_its_id_and_only_its(name: str) -> None:
    try:
        segment = encode_segment(name)
    except (InvalidRequestError, LimitExceededError):
        return
    _check_segment(name, segment)


@pytest.mark.parametrize("pair", [("\u00e9", "e\u0301"), ("a", "A"), ("\u212a", "K"), ("1", 1), ("\u0430", "a")])
def test_what_looks_alike_is_not_the_same(pair: tuple[Any, Any], tmp_path: Path) -> None:
    """Neither unicode normalization nor case is touched."""
    one, other = pair
    with wormdb.connect(tmp_path) as database:
        things = database["things"]
        things.insert({"id": one, "mine": "one"})
        assert things.find_by_id(other) is None
        things.insert({"id": other, "mine": "other"})
        database.forward(["things"])
        assert [_field(things, name, "mine") for name in pair] == ["one", "other"]
        assert {document.id for document in things} == {*pair}


def test_the_pairs_do_look_alike() -> None:
    assert unicodedata.normalize("NFC", "e\u0301") == "\u00e9"
    assert unicodedata.normalize("NFC", "\u212a") == "K"


@pytest.mark.parametrize(("size", "fits"), [(ID_BYTES_MAX - 1, True), (ID_BYTES_MAX, True), (ID_BYTES_MAX + 1, False)])
def test_the_length_of_an_id_has_a_limit(size: int, fits: bool) -> None:
    with wormdb.connect("memory://") as database:
        things = database["things"]
        if fits:
            things.insert({"id": "x" * size})
            assert "x" * size in things
        else:
            with pytest.raises((InvalidRequestError, LimitExceededError), match=str(ID_BYTES_MAX)):
                things.insert({"id": "x" * size})


@pytest.mark.parametrize("name", ["../other", "a/../../b", "/etc", "a//b", "a/./b", "a\0b", ".worm.db", "a\nb", "~"])
def test_the_name_of_a_collection_is_a_path_and_checked_as_one(name: str, tmp_path: Path) -> None:
    with wormdb.connect(tmp_path / "db") as database:
        try:
            database[name].insert({"id": "a"})
        except InvalidRequestError:
            pass
        else:
            assert name == "~"
    assert {path.name for path in tmp_path.iterdir()} <= {"db"}
