"""Lists that are made anew, half done, under verify and repair: what they have so far is what the documents say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from tests.maintenance.list_wreck import (
    PATHS,
    check_answers,
    documents_in,
    indexes_in,
    made_world,
    opened,
    site_of,
    small_objects,
)
from wormdb.engine.lists.advance import ListEdit
from wormdb.engine.lists.definition import kind_for
from wormdb.engine.lists.draft import ListDraft, ListMaker, RunDraft
from wormdb.engine.lists.shelf import ListShelf
from wormdb.engine.state.successor import following_root
from wormdb.engine.tree.definition import decode_index
from wormdb.format import json
from wormdb.format.key import encode_key
from wormdb.format.list_run import ListGeneration
from wormdb.maintenance.audit.repair import repair
from wormdb.maintenance.audit.verify import verify

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.engine.sweeps.commits import World
    from wormdb.engine.lists.shelf import ListFolder
    from wormdb.format.root import IndexRoot
    from wormdb.maintenance.collection import StoredCollection

NAMES = ("v", "deep.v", "text")

by_name = pytest.mark.parametrize("name", NAMES)


@pytest.fixture(autouse=True, scope="module")
def _small() -> Iterator[None]:
    with small_objects():
        yield


@pytest.fixture
def world() -> World:
    """Lists of three indexes are made anew, and have the first documents."""
    return made_world("renewed")


def drafted(world: World, name: str) -> tuple[IndexRoot, ListGeneration]:
    found = next(one for one in indexes_in(world) if one.name == name)
    assert found.successor is not None
    assert found.successor.head.entries > 0
    return found, found.successor


def lie(world: World, name: str, made: ListGeneration) -> None:
    """Let the root say this of the lists that are made anew."""
    site = site_of(world, seed=7)
    state = site.register.read()
    assert state.root is not None
    indexes = tuple(
        msgspec.structs.replace(one, successor=made) if one.name == name else one for one in state.root.indexes
    )
    lying = msgspec.structs.replace(state.root, indexes=indexes)
    site.register.swap(state, following_root(state, lying, (), site.writer, site.paths))


def changed(world: World, name: str, how: str) -> ListGeneration:
    """What is made anew, with another run that is wrong about one of its documents; all checksums and counts agree."""
    site = site_of(world, seed=8)
    found, begun = drafted(world, name)
    index = decode_index(name, found.definition, source=PATHS.root)
    kind = kind_for(index)
    folder = folder_of(site, name)
    maker = ListMaker(kind, folder.trained(begun.head.trained), is_strict=True)
    (lists,) = maker.lists_of([documents_in(world)["d01"]])
    key, payload = min(lists.items())
    draft = RunDraft([json.encode("d01")], [how == "lacks"], {}, (0,) * len(begun.head.tally))
    own = {b"wrong" if how == "list" and one == key else one: body for one, body in lists.items()}
    if how == "code":
        own[key] = bytes([payload[0] ^ 1]) + payload[1:]
    if how == "lacks":
        own = {}
    draft.lists = {one: ListDraft(gone=[0]) for one in lists}
    for one, body in own.items():
        place = draft.lists.setdefault(one, ListDraft())
        place.places.append(0)
        place.payloads.append(body)
    edit = ListEdit(begun.head, folder, kind, site.writer, 1)
    edit.add(draft, 1_000)
    return ListGeneration(head=edit.head, cursor=begun.cursor)


def folder_of(site: StoredCollection, name: str) -> ListFolder:
    root = site.register.read().root
    assert root is not None
    return ListShelf(site.store, site.paths, site.pool).folder(root, name)


def check_found_and_mended(world: World, told: str) -> None:
    documents = documents_in(world)
    findings = verify(site_of(world)).findings
    assert told in " ".join(finding.what for finding in findings)
    assert {finding.kind for finding in findings} == {"index"}
    repair(site_of(world, 9))
    assert verify(site_of(world)).findings == ()
    for name in NAMES:
        opened(world, 10)["things"]._ledger.tend_lists(lambda lists, name=name: lists.renew(name))
    assert verify(site_of(world)).findings == ()
    check_answers(opened(world, 11), documents, by_lists=True)


@by_name
@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("lacks", 'it is made anew, and lacks an entry of document "d01"'),
        ("list", 'it is made anew, and lacks an entry of document "d01"'),
        ("list", "it is made anew, and has 1 entries that no document has"),
        ("code", 'it is made anew, and lacks an entry of document "d01"'),
    ],
)
def test_a_draft_that_does_not_say_what_documents_say_is_found_and_mended(
    world: World, name: str, how: str, told: str
) -> None:
    assert verify(site_of(world)).findings == ()
    lie(world, name, changed(world, name, how))
    check_found_and_mended(world, told)


@by_name
def test_a_draft_that_says_that_it_has_more_documents_than_it_has_is_found_and_mended(world: World, name: str) -> None:
    _, begun = drafted(world, name)
    lie(world, name, ListGeneration(head=begun.head, cursor=encode_key("d14")))
    check_found_and_mended(world, "it is made anew, and lacks an entry of document")


@by_name
def test_a_draft_that_has_more_documents_than_it_says_is_found_and_mended(world: World, name: str) -> None:
    """Changes of these would not be brought to it."""
    _, begun = drafted(world, name)
    lie(world, name, ListGeneration(head=begun.head, cursor=None))
    check_found_and_mended(world, "entries that no document has")


def test_statistics_of_a_draft_that_are_wrong_are_found_and_mended(world: World) -> None:
    _, begun = drafted(world, "text")
    newest, *older = begun.head.runs
    wrong = msgspec.structs.replace(newest, tally=(newest.tally[0] + 1, *newest.tally[1:]))
    head = msgspec.structs.replace(begun.head, runs=(wrong, *older))
    lie(world, "text", ListGeneration(head=head, cursor=begun.cursor))
    check_found_and_mended(world, "it is made anew, and its statistics are not those of the documents")
