from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.index.rig import Trees
from tests.engine.rig import Rig, doc, ident, insert, remove, save
from wormdb.engine.blocks.runs import RunBase
from wormdb.engine.commit.define import create_index
from wormdb.engine.forward.keeper import TailLimits
from wormdb.engine.index.shelf import IndexShelf
from wormdb.engine.index.unique import UniqueOwners, keys_of
from wormdb.engine.state.definition import Definition
from wormdb.engine.state.view import Overlay, StoredVersion, View, id_key
from wormdb.engine.tree.definition import Index
from wormdb.engine.tree.nodes import NodeLimits
from wormdb.errors import InvalidRequestError, LimitExceededError
from wormdb.format.entry import Entry, LoggedBatch, LoggedChange
from wormdb.settings import INDEX_KEY_BYTES_MAX
from wormdb.system.types import LogNumber, WriteId


def index(*fields: str, sparse: bool = True) -> Index:
    return Index("i", fields, unique=True, sparse=sparse)


def values_of(wanted: Index, **values: Any) -> list[Any]:
    return list(keys_of(wanted, doc("a", **values)).values())


@pytest.mark.parametrize(
    ("fields", "values", "shown"),
    [
        (("email",), {"email": "x"}, ["x"]),
        (("email",), {"email": ""}, [""]),
        (("email",), {"email": 0}, [0]),
        (("email",), {"email": None}, []),
        (("email",), {}, []),
        (("tags",), {"tags": ["x", "y", "x"]}, ["x", "y"]),
        (("tags",), {"tags": []}, []),
        (("tags",), {"tags": [None, "x"]}, ["x"]),
        (("a.b",), {"a": {"b": 1}}, [1]),
        (("a.b",), {"a": [{"b": 1}, {"b": 2}]}, [1, 2]),
        (("a", "b"), {"a": 1, "b": 2}, [[1, 2]]),
        (("a", "b"), {"a": 1}, [[1, None]]),
        (("a", "b"), {}, []),
        (("a", "b"), {"a": None, "b": None}, []),
        (("a", "b"), {"a": [1, 2], "b": 3}, [[1, 3], [2, 3]]),
    ],
)
def test_what_a_document_claims(fields: tuple[str, ...], values: dict[str, Any], shown: list[Any]) -> None:
    assert values_of(index(*fields), **values) == shown


def test_an_index_that_is_not_sparse_counts_null_and_missing_as_one_value() -> None:
    wanted = index("email", sparse=False)
    assert keys_of(wanted, doc("a")) == keys_of(wanted, doc("b", email=None))
    assert values_of(wanted) == [None]


def test_nothing_is_claimed_by_a_document_that_is_gone() -> None:
    assert keys_of(index("email"), None) == {}


def test_equal_numbers_claim_the_same_key_whatever_their_type() -> None:
    wanted = index("n")
    assert keys_of(wanted, doc("a", n=1)).keys() == keys_of(wanted, doc("b", n=1.0)).keys()
    assert keys_of(wanted, doc("a", n=1)).keys() != keys_of(wanted, doc("b", n=True)).keys()
    assert keys_of(wanted, doc("a", n=1)).keys() != keys_of(wanted, doc("b", n="1")).keys()


def owners(keys: UniqueOwners, *emails: str) -> list[bytes | None]:
    return [keys.owner(next(iter(keys_of(keys.index, doc("q", email=email))))) for email in emails]


def entry(*changes: LoggedChange) -> Entry:
    name = WriteId("0" * 32)
    batch = LoggedBatch(id=name, changes=changes)
    return Entry(number=1, write_id=name, misc=0, node=0, previous=bytes(32), batches=(batch,))


def change(identity: str, before: str | None, after: str | None) -> LoggedChange:
    return LoggedChange(
        id=ident(identity),
        seq=1,
        before=None if before is None else doc(identity, email=before),
        after=None if after is None else doc(identity, email=after),
    )


def test_owners_follow_the_entries() -> None:
    keys = UniqueOwners.build(
        index("email"), [StoredVersion(ident("a"), 1, 1, doc("a", email="x")), StoredVersion(ident("z"), 1, 2, None)]
    )
    assert owners(keys, "x", "y") == [ident("a"), None]
    keys.apply(entry(change("a", "x", "y")))
    assert owners(keys, "x", "y") == [None, ident("a")]
    keys.apply(entry(change("a", "y", None)))
    assert owners(keys, "x", "y") == [None, None]


def test_documents_may_trade_values_in_one_entry_whichever_comes_first() -> None:
    for order in (0, 1):
        keys = UniqueOwners(index("email"))
        keys.apply(entry(change("a", None, "x"), change("b", None, "y")))
        trade = [change("a", "x", "y"), change("b", "y", "x")]
        keys.apply(entry(*(reversed(trade) if order else trade)))
        assert owners(keys, "x", "y") == [ident("b"), ident("a")]


def test_a_ring_of_three_and_a_detour_end_right() -> None:
    keys = UniqueOwners(index("email"))
    keys.apply(entry(change("a", None, "x"), change("b", None, "y"), change("c", None, "z")))
    keys.apply(entry(change("a", "x", "w"), change("b", "y", "x"), change("c", "z", "y"), change("a", "w", "z")))
    assert owners(keys, "x", "y", "z", "w") == [ident("b"), ident("c"), ident("a"), None]


def test_two_arrays_in_one_index_and_a_key_too_long_are_refused() -> None:
    with pytest.raises(InvalidRequestError, match="index i: two fields of one index are arrays"):
        keys_of(index("a", "b"), doc("x", a=[1], b=[2]))
    with pytest.raises(LimitExceededError, match="a key of index i"):
        keys_of(index("a"), doc("x", a="x" * INDEX_KEY_BYTES_MAX))


def test_an_array_within_an_array_is_one_value() -> None:
    assert values_of(index("a"), a=[[1, 2], 1]) == [[1, 2], 1]


def test_what_an_index_cannot_take_is_refused() -> None:
    assert len(keys_of(index("a", "b"), doc("x", a=[1], b=2, c=[3]))) == 1
    assert len(keys_of(index("c"), doc("x", a=[1], b=2, c=[3]))) == 1
    assert keys_of(index("a", "b"), None) == {}
    with pytest.raises(InvalidRequestError, match="index i: two fields of one index are arrays"):
        keys_of(index("a", "b"), doc("x", a=[1], b=[2]))


# --- on top of a tree ---

EMAIL = Index("byEmail", ("email",), unique=True)


def key_of(email: str) -> bytes:
    (key,) = keys_of(EMAIL, doc("q", email=email))
    return key


def view_of(trees: Trees, *entries: Entry) -> View:
    """A view of what the trees have, with entries after it."""
    overlay = Overlay()
    for one in entries:
        overlay.apply(one)
    number = LogNumber(trees.number + len(entries))
    definition = Definition(LogNumber(0), b"", None, trees.states)
    return View(number, definition, RunBase(trees.place), LogNumber(trees.number), overlay, len(trees.documents))


def many(*numbers: int) -> dict[Any, dict[str, Any]]:
    return {f"id-{number}": {"email": f"user-{number}"} for number in numbers}


def test_new_keys_read_no_leaf() -> None:
    trees = Trees.ready(EMAIL, limits=NodeLimits())
    trees.step(many(*range(20_000)))
    shelf = trees.cold()
    found = UniqueOwners.of(EMAIL, view_of(trees), shelf)
    before = trees.store.mark()
    assert found.owner(key_of("new")) is None
    assert trees.store.since(before).gets == 1, "the filter, which is one run"
    before = trees.store.mark()
    new = [key_of(f"new-{number}") for number in range(1_000)]
    assert found.owners(new) == dict.fromkeys(new)
    assert trees.store.since(before).gets == 0


def test_keys_that_are_there_are_read_level_by_level() -> None:
    trees = Trees.ready(EMAIL, limits=NodeLimits(16, 16 * 64))
    trees.step(many(*range(2_000)))
    height = trees.index("byEmail").height
    assert height == 3
    for asked in (["user-1700"], ["user-1700", "user-1701"], ["user-1700", "user-3", "new"]):
        found = UniqueOwners.of(EMAIL, view_of(trees), trees.cold())
        before = trees.store.mark()
        answer = found.owners(map(key_of, asked))
        assert answer == {
            key_of(email): None if email == "new" else ident(email.replace("user", "id")) for email in asked
        }
        # The filter and the top once; of the lower levels one node for each key, or for both if they are neighbours.
        apart = 1 if len(asked) < 3 else 2
        assert trees.store.since(before).gets == 1 + 1 + apart * (height - 1)


def test_what_the_tail_says_of_a_document_hides_what_the_tree_says() -> None:
    trees = Trees.ready(EMAIL)
    trees.step({"a": {"email": "x"}, "b": {"email": "y"}, "c": {"email": "z"}})
    tail = [
        numbered_entry(trees.number + 1, change("a", "x", "w"), change("b", "y", "x")),
        numbered_entry(trees.number + 2, change("c", "z", None)),
    ]
    found = UniqueOwners.of(EMAIL, view_of(trees, *tail), trees.cold())
    followed = UniqueOwners.of(EMAIL, view_of(trees), trees.cold())
    for one in tail:
        followed.apply(one)
    for keys in (found, followed):
        assert owners(keys, "w", "x", "y", "z") == [ident("a"), ident("b"), None, None]
    again = numbered_entry(trees.number + 3, change("d", None, "y"), change("a", "w", "z"))
    followed.apply(again)
    assert owners(followed, "w", "x", "y", "z") == [None, ident("b"), ident("d"), ident("a")]


def numbered_entry(number: int, *changes: LoggedChange) -> Entry:
    name = WriteId("0" * 32)
    batch = LoggedBatch(id=name, changes=changes)
    return Entry(number=number, write_id=name, misc=0, node=0, previous=bytes(32), batches=(batch,))


moves = st.lists(st.tuples(st.integers(0, 12), st.one_of(st.none(), st.integers(0, 12))), min_size=1, max_size=40)


@given(moves, st.integers(0, 40), st.integers(0, 40))
def test_owners_are_those_of_a_dict_wherever_the_root_is(
    steps: list[tuple[int, int | None]], rooted: int, opened: int
) -> None:
    """`rooted` changes are in the tree, those up to `opened` in the view, the rest are applied afterwards."""
    trees = Trees.ready(EMAIL)
    emails: dict[str, str] = {}
    entries: list[Entry] = []
    for place, (who, what) in enumerate(steps):
        name, email = f"d{who}", None if what is None else f"e{what}"
        if email in emails.values() or (email is None and name not in emails):
            continue
        if place < rooted:
            trees.step({name: None if email is None else {"email": email}})
        else:
            entries.append(numbered_entry(trees.number + len(entries) + 1, change(name, emails.get(name), email)))
        emails.pop(name, None)
        if email is not None:
            emails[name] = email
    keys = UniqueOwners.of(EMAIL, view_of(trees, *entries[:opened]), trees.cold())
    for one in entries[opened:]:
        keys.apply(one)
    wanted = {email: ident(name) for name, email in emails.items()}
    assert owners(keys, *(f"e{number}" for number in range(13))) == [wanted.get(f"e{number}") for number in range(13)]


def test_without_a_tree_every_document_is_looked_at() -> None:
    trees = Trees.ready(EMAIL)
    trees.step({"a": {"email": "x"}, "b": {"email": "y"}})
    trees.keep_documents()
    other = Index("byEmail", ("email",), unique=True, sparse=False)
    tail = numbered_entry(trees.number + 1, change("b", "y", "z"))
    found = UniqueOwners.of(other, view_of(trees, tail), trees.cold())
    assert owners(found, "x", "y", "z") == [ident("a"), None, ident("b")]


def test_a_process_that_opens_a_collection_asks_the_tree() -> None:
    rig = Rig()
    ledger = rig.ledger(limits=TailLimits(mode="manual", interval_ms=0))
    ledger.commit(create_index("0" * 32, EMAIL, seen=ledger.view()))
    ledger.commit(rig.batch(*(insert(f"{number:04d}", email=f"user-{number}") for number in range(300))))
    ledger._advance.run()
    ledger.commit(rig.batch(save("0001", email="changed"), remove("0002")))
    view = rig.ledger().view()
    place = view.place
    assert place is not None
    keys = UniqueOwners.of(EMAIL, view, IndexShelf(rig.store, place.paths, place.pool))
    assert owners(keys, "user-1", "user-2", "user-3", "changed") == [None, None, ident("0003"), ident("0001")]


def test_attached_blocks_of_the_tail_are_looked_at() -> None:
    trees = Trees.ready(EMAIL)
    trees.step({"a": {"email": "x"}, "b": {"email": "y"}})
    attached = Trees.ready(EMAIL)
    attached.documents = {"b": {"email": "z"}, "c": {"email": "w"}}
    attached.number = trees.number + 1
    attached.keep_documents()
    view = view_of(trees)
    view.overlay.apply(numbered_entry(attached.number), RunBase(attached.place))
    view = View(LogNumber(attached.number), view.definition, view.base, view.base_number, view.overlay, 3)
    keys = UniqueOwners.of(EMAIL, view, trees.cold())
    assert owners(keys, "x", "y", "z", "w") == [ident("a"), None, ident("b"), ident("c")]
    assert id_key(ident("c")) in keys._touched
