"""A view is a value: whatever happens to the overlay afterwards, it stays as it was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from tests.engine.rig import contents, doc, ident
from wormdb.engine.state.definition import Definition
from wormdb.engine.state.view import EmptyBase, Overlay, StoredVersion, View, id_key, id_keys
from wormdb.format import json
from wormdb.format.entry import Entry, LoggedBatch, LoggedChange
from wormdb.format.values import normalize
from wormdb.system.types import LogNumber, WriteId
from wormdb.testing.strategies import ids

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Step = list[tuple[int, int | None]]
"""One entry: ids, each with its new value, or None for a delete."""

STEPS = st.lists(
    st.lists(st.tuples(st.integers(0, 5), st.none() | st.integers(0, 9)), min_size=1, max_size=4), max_size=8
)


class FixedBase:
    """A base made of a dict."""

    def __init__(self, held: dict[bytes, StoredVersion]) -> None:
        self.held = held

    def get(self, key: bytes) -> StoredVersion | None:
        return self.held.get(key)

    def get_many(self, keys: Sequence[bytes]) -> dict[bytes, StoredVersion]:
        return {key: self.held[key] for key in keys if key in self.held}

    def prepare(self, keys: Sequence[bytes]) -> None:
        """Nothing to read before."""

    def scan(self, low: bytes = b"", high: bytes | None = None) -> Iterator[tuple[bytes, StoredVersion]]:
        inside = [key for key in sorted(self.held) if low <= key and (high is None or key < high)]
        return iter([(key, self.held[key]) for key in inside])

    def trashed(self) -> Iterator[bytes]:
        return (key for key, held in self.held.items() if held.trash is not None)

    @property
    def place(self) -> None:
        """It is of no root."""
        return


class Model:
    """What should be there: id → (rev, seq, value)."""

    def __init__(self) -> None:
        self.held: dict[Any, tuple[int, int, dict[str, Any] | None]] = {}

    def entry(self, number: int, step: Step) -> Entry:
        changes = []
        for identity, value in step:
            _, seq, before = self.held.get(identity, (0, 0, None))
            if before is None and value is None:
                continue
            after = None if value is None else {"v": value}
            self.held[identity] = (number, seq + 1, after)
            changes.append(
                LoggedChange(
                    id=ident(identity),
                    seq=seq + 1,
                    before=None if before is None else doc(identity, **before),
                    after=None if after is None else doc(identity, **after),
                )
            )
        name = WriteId(f"{number:032x}")
        batch = LoggedBatch(id=name, changes=tuple(changes))
        return Entry(number=number, write_id=name, misc=0, node=0, previous=bytes(32), batches=(batch,))

    def copy(self) -> dict[Any, tuple[int, int, dict[str, Any] | None]]:
        return dict(self.held)


def view_of(overlay: Overlay, number: int, base: FixedBase | None = None, base_number: int = 0) -> View:
    return View(LogNumber(number), Definition.none(), base or EmptyBase(), LogNumber(base_number), overlay, 0)


@given(STEPS)
def test_a_view_does_not_move_while_its_overlay_grows(steps: list[Step]) -> None:
    model, overlay = Model(), Overlay()
    views = [(view_of(overlay, 0), model.copy())]
    for number, step in enumerate(steps, 1):
        overlay.apply(model.entry(number, step))
        views.append((view_of(overlay, number), model.copy()))
    for view, expected in views:
        assert contents(view) == expected
        for identity in range(6):
            held = view.get(id_key(ident(identity)))
            assert (held is None) == (identity not in expected)
            if held is not None:
                assert (held.rev, held.seq) == expected[identity][:2]


@given(STEPS, st.integers(0, 8))
def test_base_and_overlay_merge_to_the_same_state_wherever_they_are_cut(steps: list[Step], cut: int) -> None:
    model, overlay = Model(), Overlay()
    at_cut: dict[bytes, StoredVersion] = {}
    for number, step in enumerate(steps, 1):
        overlay.apply(model.entry(number, step))
        if number <= cut:
            at_cut = dict(overlay.scan(LogNumber(number)))
    applied = min(cut, len(steps))
    view = view_of(overlay.since(LogNumber(applied)), len(steps), FixedBase(at_cut), applied)
    assert contents(view) == model.held
    assert [key for key, _ in view.scan()] == sorted(id_key(ident(identity)) for identity in model.held)


# --- blocks that a job attached, in the tail ---


def attach(model: Model, number: int, step: Step) -> tuple[Entry, FixedBase]:
    """What a job does to documents, each once: an entry without changes, and the rows of its blocks."""
    model.entry(number, list(dict(step).items()))
    rows = {
        id_key(ident(identity)): StoredVersion(
            ident(identity), rev, seq, None if values is None else doc(identity, **values)
        )
        for identity, (rev, seq, values) in model.held.items()
        if rev == number
    }
    name = WriteId(f"{number:032x}")
    return Entry(number=number, write_id=name, misc=0, node=0, previous=bytes(32)), FixedBase(rows)


def looks(view: View) -> None:
    """Every way of looking at a view tells the same."""
    whole = dict(view.scan())
    keys = [id_key(ident(identity)) for identity in range(7)]
    assert view.get_many(keys) == whole
    assert {key: held for key in keys if (held := view.get(key)) is not None} == whole
    for low, high in ((keys[1], keys[4]), (keys[3], None), (b"", keys[2]), (keys[2], keys[2])):
        inside = {key: held for key, held in whole.items() if low <= key and (high is None or key < high)}
        assert list(view.scan(low, high)) == sorted(inside.items())


ATTACHING = st.lists(
    st.tuples(
        st.booleans(),
        st.lists(st.tuples(st.integers(0, 5), st.none() | st.integers(0, 9)), min_size=1, max_size=4),
    ),
    max_size=8,
)


@given(ATTACHING, st.integers(0, 8))
def test_views_see_entries_and_attached_blocks_in_the_order_of_the_log(
    steps: list[tuple[bool, Step]], cut: int
) -> None:
    """The same ids are touched before, by and after an attach; and wherever the base ends."""
    model, overlay = Model(), Overlay()
    views = [(view_of(overlay, 0), model.copy())]
    at_cut: dict[bytes, StoredVersion] = {}
    for number, (is_attached, step) in enumerate(steps, 1):
        entry, base = attach(model, number, step) if is_attached else (model.entry(number, step), None)
        overlay.apply(entry, base)
        views.append((view_of(overlay, number), model.copy()))
        if number == cut:
            at_cut = dict(views[-1][0].scan())
    for view, expected in views:
        assert contents(view) == expected
        looks(view)
    applied = cut if cut <= len(steps) else 0
    based = view_of(overlay.since(LogNumber(applied)), len(steps), FixedBase(at_cut), applied)
    assert contents(based) == model.held
    looks(based)
    assert [one.number for one in based.overlay.attached(LogNumber(99))] == [
        number for number in range(len(steps), applied, -1) if steps[number - 1][0]
    ], "newest first, and none that the base has"


def test_since_leaves_the_old_overlay_as_it_is() -> None:
    model, overlay = Model(), Overlay()
    overlay.apply(model.entry(1, [(1, 1)]))
    overlay.apply(model.entry(2, [(1, 2), (2, 2)]))
    newer = overlay.since(LogNumber(1))
    newer.apply(model.entry(3, [(1, 3)]))
    assert contents(view_of(overlay, 9)) == {1: (2, 2, {"v": 2}), 2: (2, 1, {"v": 2})}
    assert contents(view_of(newer, 9))[1] == (3, 3, {"v": 3})
    assert [entry.number for entry in overlay.entries(LogNumber(9))] == [1, 2]
    assert [entry.number for entry in newer.entries(LogNumber(9))] == [2, 3]
    assert [entry.number for entry in newer.entries(LogNumber(2))] == [2]


def test_the_last_change_of_a_document_in_an_entry_counts() -> None:
    model, overlay = Model(), Overlay()
    overlay.apply(model.entry(1, [(1, 1), (1, None)]))
    held = overlay.get(id_key(ident(1)), LogNumber(1))
    assert held is not None
    assert (held.seq, held.document) == (2, None)


def test_an_overlay_may_hold_one_version_of_given_keys() -> None:
    held = StoredVersion(ident(1), 4, 2, doc(1))
    overlay = Overlay()
    overlay.hold({id_key(ident(1)): StoredVersion(ident(1), 2, 1, None)})
    overlay.hold({id_key(ident(1)): held})
    assert overlay.get(id_key(ident(1)), LogNumber(4)) == held
    assert overlay.get(id_key(ident(1)), LogNumber(3)) is None


def test_equal_ids_have_equal_keys() -> None:
    assert id_key(ident(1)) == id_key(ident(1.0))
    assert id_key(ident(1)) != id_key(ident("1"))


def test_nothing_is_in_the_base_of_a_collection_without_a_root() -> None:
    assert EmptyBase().get(b"x") is None
    assert EmptyBase().get_many([b"x"]) == {}
    assert EmptyBase().place is None
    assert list(EmptyBase().scan()) == []


@given(st.lists(ids(), max_size=5) | st.lists(st.text(min_size=1, max_size=3), max_size=5))
def test_many_keys_are_those_of_each(identities: list[Any]) -> None:
    encoded = [json.encode(normalize(identity)) for identity in identities]
    assert id_keys(encoded) == list(map(id_key, encoded))
