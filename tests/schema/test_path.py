"""The path language: grammar with positions, keys, and keys read back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wormdb.errors import InvalidRequestError, LimitExceededError, SchemaError
from wormdb.format.values import ObjectId
from wormdb.schema.path import SINGLETON_ID, PathTemplate, Segment, Symbols, parse_template

USERS = parse_template("#org/(tenant:slug)/@users/(id:uuid)/[user].json")


def test_signs_vanish_in_the_key() -> None:
    path = parse_template("#org/@customers/(id:uuid)/[profile].json")
    assert path.entity_key("X") == "org/customers/X/profile.json"
    assert path.entity_prefix("X") == "org/customers/X/"
    assert path.collection_prefix() == "org/customers/"
    assert (path.collection_name, path.file_name, path.outer) == ("customers", "profile.json", ())
    assert path.id == Segment("dynamic", "id", "uuid")


def test_namespaces_repeat_and_the_file_is_data_json_where_none_is_named() -> None:
    path = parse_template("#app/#v2/@users/(id:uuid)")
    assert path.entity_key("u") == "app/v2/users/u/data.json"
    assert path.file is None


def test_outer_values_are_part_of_the_prefix() -> None:
    assert USERS.collection_prefix({"tenant": "acme"}) == "org/acme/users/"
    assert USERS.entity_key("u", {"tenant": "a/b"}) == "org/a%2Fb/users/u/user.json"
    assert [segment.name for segment in USERS.outer] == ["tenant"]


def test_collections_nest() -> None:
    path = parse_template("@customers/(customer:uuid)/@invoices/(id:seq)/[invoice].json")
    assert path.entity_key("7", {"customer": "c"}) == "customers/c/invoices/7/invoice.json"
    assert path.collection_name == "invoices"


@pytest.mark.parametrize("outer", [{}, {"tenent": "a"}, {"tenant": "a", "more": "b"}])
def test_missing_and_unknown_outer_values_are_refused(outer: dict[str, str]) -> None:
    with pytest.raises(InvalidRequestError, match=r"tenant|more"):
        USERS.collection_prefix(outer)


def test_singletons_have_one_document_for_each_set_of_outer_values() -> None:
    plain = parse_template("#org/@settings/[settings].json")
    assert plain.id is None
    assert plain.entity_key() == plain.entity_key("ignored") == "org/settings/settings.json"
    assert plain.collection_prefix() == plain.entity_prefix() == "org/settings/"
    assert plain.parse_key("org/settings/settings.json") == ({}, SINGLETON_ID)
    outer = parse_template("#org/(tenant:slug)/#settings/[s].json")
    assert outer.entity_key(outer={"tenant": "a"}) == "org/a/settings/s.json"
    assert outer.parse_key("org/a/settings/s.json") == ({"tenant": "a"}, SINGLETON_ID)


@pytest.mark.parametrize(
    "text",
    [
        "#org/@customers/(id:uuid)/[profile].json",
        "@a/(id:any)",
        "#a/(b:c-d)/#e/@f.g-h_1/(i:j)/[k].tar.gz",
        "#org/[settings].json",
    ],
)
def test_paths_are_written_as_they_were_read(text: str) -> None:
    assert str(parse_template(text)) == text


def test_other_signs() -> None:
    symbols = Symbols("!", "$", "<>", "{}")
    path = parse_template("!org/$customers/<id:uuid>/{profile}.json", symbols)
    assert path == parse_template("#org/@customers/(id:uuid)/[profile].json")


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("", [1]),
        ("/@a/(id:uuid)", [1]),
        ("@a//(id:uuid)", [4]),
        ("@a/(id:uuid)/", [14]),
        ("a/(id:uuid)", [1]),
        ("@a/../(id:uuid)", [4]),
        ("@../(id:uuid)", [2]),
        ("@.worm.db/(id:uuid)", [2]),
        ("#.oplog/@a/(id:uuid)", [2]),
        ("#.snapshots/@a/(id:uuid)", [2]),
        ("@/(id:uuid)", [2]),
        ("@a b/(id:uuid)", [2]),
        ("@a./(id:uuid)", [2]),
        ("@größe/(id:uuid)", [2]),
        ("@" + "a" * 241 + "/(id:uuid)", [2]),
        ("@a/(id)", [4]),
        ("@a/(id:)", [4]),
        ("@a/(:uuid)", [5]),
        ("@a/(i d:uuid)", [5]),
        ("@a/(id:u u)", [8]),
        ("@a/(id:uuid", [4]),
        ("@a/(", [4]),
        ("@a/(id:uuid)/@b/(id:uuid)", [18]),
        ("@a/(id:uuid)/[x.json", [14]),
        ("@a/(id:uuid)/[x]", [17]),
        ("@a/(id:uuid)/[x].", [17]),
        ("@a/(id:uuid)/[.worm].json", [15]),
        ("@a/(id:uuid)/[x.y].json", [15]),
        ("@a/(id:uuid)/[].json", [15]),
        ("[x].json/@a/(id:uuid)", [1]),
        ("(id:uuid)/[x].json", [1]),
        ("[x].json", [1]),
        ("#a/(id:uuid)/[x].json", [4]),
        ("#a/(b:uuid)/(id:uuid)", [13]),
        ("a/@.b/(c)/[d]", [1, 4, 7, 14]),
        ("@a/(id:uuid).json/@b/(x:uuid)", [4]),
        ("@a/(id:uuid).", [4]),
        ("@a/(id:uuid)json", [4]),
        ("#a/(id:uuid).json", [4]),
        ("@a/(id).json", [4]),
    ],
)
def test_grammar_mistakes_have_their_columns(text: str, columns: list[int]) -> None:
    with pytest.raises(SchemaError) as caught:
        parse_template(text)
    assert [int(problem.reason.removeprefix("column ").split(":")[0]) for problem in caught.value.problems] == columns
    assert all(problem.fix for problem in caught.value.problems)


@given(st.text("#@()[]:/.ab", max_size=25))
def test_any_text_is_a_path_or_a_schema_error(text: str) -> None:
    try:
        path = parse_template(text)
    except SchemaError:
        return
    assert str(path) == text
    assert parse_template(str(path)) == path


IDS: st.SearchStrategy[Any] = (
    st.text(min_size=1, max_size=20)
    | st.sampled_from(["..", ".", ".worm", "a/b", "a\\b", "%2F", "CON", "x\0y", "profile.json"])
    | st.integers(-(2**63), 2**63 - 1)
    | st.binary(min_size=12, max_size=12).map(ObjectId)
)


FLAT_USERS = parse_template("#org/(tenant:slug)/@users/(id:uuid).json")


@given(IDS, st.text(min_size=1, max_size=20))
def test_keys_of_a_flat_path_are_read_back(identity: Any, tenant: str) -> None:
    key = FLAT_USERS.entity_key(identity, {"tenant": tenant})
    assert FLAT_USERS.parse_key(key) == ({"tenant": tenant}, identity)
    assert USERS.parse_key(key) is None
    assert FLAT_USERS.parse_key(USERS.entity_key(identity, {"tenant": tenant})) is None
    assert len(key.split("/")) == 4
    assert not any(part.startswith(".") for part in key.split("/"))


@pytest.mark.parametrize(
    "key", ["org/acme/users/.json", "org/acme/users/u", "org/acme/users/u.JSON", "users/u.json", ""]
)
def test_other_keys_are_no_documents_of_a_flat_path(key: str) -> None:
    assert FLAT_USERS.parse_key(key) is None


def test_a_name_of_a_flat_path_has_the_length_of_any_other() -> None:
    with pytest.raises(LimitExceededError, match="file name of 241 bytes"):
        FLAT_USERS.entity_key("x" * 236, {"tenant": "acme"})
    assert FLAT_USERS.entity_key("x" * 235, {"tenant": "acme"}).endswith("x.json")


@given(IDS, st.text(min_size=1, max_size=20))
def test_keys_are_read_back(identity: Any, tenant: str) -> None:
    key = USERS.entity_key(identity, {"tenant": tenant})
    assert USERS.parse_key(key) == ({"tenant": tenant}, identity)
    assert len(key.split("/")) == 5
    assert not any(part.startswith(".") for part in key.split("/"))


@pytest.mark.parametrize(
    "key",
    [
        "org/acme/users/u/other.json",
        "org/acme/users/user.json",
        "org/acme/users/u/x/user.json",
        "gro/acme/users/u/user.json",
        "org/acme/users//user.json",
        "org/acme/users/%zz/user.json",
        "org/acme/users/a%2fb/user.json",
        "org/acme/users/.oplog/user.json",
        "",
    ],
)
def test_other_keys_are_no_documents(key: str) -> None:
    assert USERS.parse_key(key) is None


def test_templates_are_values() -> None:
    assert PathTemplate(USERS.segments, "user.json") == USERS
    assert len({USERS, PathTemplate(USERS.segments, "user.json")}) == 1
