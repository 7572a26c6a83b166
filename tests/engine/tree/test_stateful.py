"""Trees against a sorted list: every operation in random order, and every old tree as it was."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.engine.tree.rig import Shelf
from wormdb.engine.tree.entries import Range
from wormdb.engine.tree.nodes import NodeLimits, Tree
from wormdb.engine.tree.statistics import measure

if TYPE_CHECKING:
    from wormdb.engine.tree.entries import Change, Entry

# Few letters and lengths, so that keys share prefixes, are prefixes of each other, and meet again; and long ones.
keys = st.one_of(
    st.text("ab\0\xff", max_size=6).map(lambda text: text.encode("latin-1")),
    st.integers(0, 400).map(lambda number: b"%03d" % number),
    st.integers(0, 20).map(lambda number: b"long-%02d" % number + b"x" * 500),
)
values = st.binary(max_size=3)
runs = st.tuples(st.integers(0, 400), st.integers(0, 120)).map(
    lambda pair: [b"%03d" % number for number in range(pair[0], min(sum(pair), 400))]
)
flags = st.booleans()


def chosen(model: dict[bytes, bytes], lower: bytes | None, upper: bytes | None, first: bool, last: bool) -> list[Entry]:
    """The entries between two bounds, by comparing every one of them."""
    return [
        (key, model[key])
        for key in sorted(model)
        if lower is None or lower < key or (first and lower == key)
        if upper is None or key < upper or (last and upper == key)
    ]


class TreeMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.shelf = Shelf()
        self.tree = Tree()
        self.model: dict[bytes, bytes] = {}
        self.past: list[tuple[Tree, dict[bytes, bytes]]] = []

    @initialize(entries=st.dictionaries(keys, values, max_size=60), run=runs, limit=st.integers(5, 12))
    def load(self, entries: dict[bytes, bytes], run: list[bytes], limit: int) -> None:
        self.shelf = Shelf(NodeLimits(limit, limit * 160))
        self.model = entries | dict.fromkeys(run, b"r")
        self.tree = self.shelf.load(sorted(self.model.items()))

    def change(self, changes: dict[bytes, bytes | None]) -> None:
        self.past = [*self.past[-2:], (self.tree, dict(self.model))]
        batch: list[Change] = sorted(changes.items())
        applied = self.shelf.apply(self.tree, batch)
        before = self.model
        self.model = {key: value for key, value in (before | changes).items() if value is not None}
        if before == self.model:
            assert (applied.tree, applied.written, applied.retired) == (self.tree, (), ())
        self.tree = applied.tree

    @rule(changes=st.dictionaries(keys, st.none() | values, max_size=40))
    def change_some(self, changes: dict[bytes, bytes | None]) -> None:
        self.change(changes)

    @rule(run=runs, value=st.none() | values)
    def change_a_run(self, run: list[bytes], value: bytes | None) -> None:
        self.change(dict.fromkeys(run, value))

    @rule(data=st.data())
    def delete_some(self, data: st.DataObject) -> None:
        if self.model:
            doomed = data.draw(st.sets(st.sampled_from(sorted(self.model)), max_size=len(self.model)))
            self.change(dict.fromkeys(doomed))

    @rule(spare=st.integers(0, 3))
    def delete_nearly_all(self, spare: int) -> None:
        self.change(dict.fromkeys(sorted(self.model)[spare:]))

    @rule(lower=st.none() | keys, upper=st.none() | keys, first=flags, last=flags, reverse=flags, data=st.data())
    def read_a_range(
        self, lower: bytes | None, upper: bytes | None, first: bool, last: bool, reverse: bool, data: st.DataObject
    ) -> None:
        expected = chosen(self.model, lower, upper, first, last)
        span = Range.between(lower, upper, lower_inclusive=first, upper_inclusive=last)
        reader = self.shelf.reader(self.tree)
        assert reader.count(span) == len(expected)
        assert reader.ranges([span]) == [expected]
        in_order = expected[::-1] if reverse else expected
        assert list(reader.scan(span, reverse=reverse)) == in_order
        limit = data.draw(st.integers(0, len(expected) + 1))
        assert list(reader.scan(span, reverse=reverse, limit=limit)) == in_order[:limit]

    @rule(prefix=keys, reverse=flags)
    def read_a_prefix(self, prefix: bytes, reverse: bool) -> None:
        expected = [(key, self.model[key]) for key in sorted(self.model) if key.startswith(prefix)]
        reader = self.shelf.reader(self.tree)
        assert list(reader.prefix(prefix, reverse=reverse)) == (expected[::-1] if reverse else expected)

    @rule(wanted=st.lists(keys, max_size=20))
    def read_keys(self, wanted: list[bytes]) -> None:
        expected = [self.model.get(key) for key in wanted]
        reader = self.shelf.reader(self.tree)
        assert reader.get_many(wanted) == expected
        assert [reader.get(key) for key in wanted] == expected
        assert reader.prefix_many(wanted) == [
            [(key, self.model[key]) for key in sorted(self.model) if key.startswith(prefix)] for prefix in wanted
        ]

    @rule()
    def measure_it(self) -> None:
        statistics = measure(self.shelf.reader(self.tree), value_key=lambda entry: entry[0])
        assert statistics.entries == len(self.model)
        ordered = sorted(self.model)
        assert [sum(key < bound for key in ordered) for bound in statistics.bounds] == list(statistics.ranks)

    @invariant()
    def the_tree_is_sound(self) -> None:
        assert self.tree.entries == len(self.model)
        self.shelf.check(self.tree)

    def teardown(self) -> None:
        for tree, model in [*self.past, (self.tree, self.model)]:
            assert list(self.shelf.reader(tree).scan()) == sorted(model.items())


TestTree = TreeMachine.TestCase
TestTree.settings = settings(stateful_step_count=25)
