"""Arrays are those of Arrow's own functions, and pandas is not imported for them."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wormdb.format import arrays
from wormdb.format.arrays import array_of, scalar_of

INTEGERS = st.integers(-(2**63), 2**63 - 1)
DATES = st.datetimes(timezones=st.just(UTC)).map(lambda date: date.replace(microsecond=date.microsecond // 1000 * 1000))
PLAIN: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.bool_(), st.booleans()),
    (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    (pa.int64(), INTEGERS),
    (pa.uint8(), st.integers(0, 255)),
    (pa.uint64(), st.integers(0, 2**64 - 1)),
    (pa.float64(), st.floats(allow_nan=False)),
    (pa.string(), st.text(max_size=5)),
    (pa.large_string(), st.text(max_size=5)),
    (pa.binary(), st.binary(max_size=5)),
    (pa.large_binary(), st.binary(max_size=5)),
    (pa.binary(12), st.binary(min_size=12, max_size=12)),
    (pa.timestamp("ms", tz="UTC"), DATES),
    (pa.decimal128(38, 2), st.decimals(-1000, 1000, places=2)),
]
KINDS = [*PLAIN, *((pa.list_(kind), st.lists(st.none() | values, max_size=3)) for kind, values in PLAIN[:9])]
NUMBERS = st.booleans() | st.integers() | st.floats(allow_nan=False)
ODD = st.none() | NUMBERS | st.text(max_size=3) | st.binary(max_size=3)


@pytest.fixture(autouse=True)
def without_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process that did not load pandas, though it is installed."""
    monkeypatch.setattr(arrays, "_would_import", lambda: True)
    monkeypatch.setattr(arrays, "_made", 0)


@given(data=st.data())
@pytest.mark.parametrize(("kind", "values"), KINDS, ids=[str(kind) for kind, _ in KINDS])
def test_an_array_is_what_arrow_makes_of_the_values(kind: pa.DataType, values: Any, data: st.DataObject) -> None:
    some = data.draw(st.lists(st.none() | values, max_size=20))
    found = array_of(some, kind)
    found.validate(full=True)
    assert found.type == kind
    assert found.to_pylist() == pa.array(some, kind).to_pylist()
    assert found.null_count == pa.array(some, kind).null_count


@given(some=st.lists(ODD, max_size=4))
@pytest.mark.parametrize("kind", [kind for kind, _ in KINDS], ids=str)
def test_values_of_other_types_are_taken_or_refused_as_by_arrow(kind: pa.DataType, some: list[Any]) -> None:
    assert _outcome(lambda: array_of(some, kind)) == _outcome(lambda: pa.array(some, kind))


def _outcome(make: Any) -> Any:
    try:
        return make().to_pylist()
    except (pa.ArrowException, TypeError, OverflowError, ValueError) as error:
        return type(error)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([2**63], pa.int64()),
        ([-1], pa.uint8()),
        (["\ud800"], pa.string()),
        ([b"short"], pa.binary(12)),
        ([datetime(2026, 1, 1)], pa.timestamp("ms", tz="UTC")),  # noqa: DTZ001 - a date without a zone is the case
        ([datetime(2026, 1, 1, microsecond=1, tzinfo=UTC)], pa.timestamp("ms", tz="UTC")),
        ([[1, "x"]], pa.list_(pa.int64())),
        ([(1, 2)], pa.list_(pa.int64())),
    ],
)
def test_what_has_no_plain_buffer_is_left_to_arrow(values: list[Any], kind: pa.DataType) -> None:
    assert _outcome(lambda: array_of(values, kind)) == _outcome(lambda: pa.array(values, kind))


@pytest.mark.parametrize("value", [True, False, 0, 255, 2**40])
def test_the_type_of_a_flag_or_a_number_need_not_be_said(value: int) -> None:
    assert scalar_of(value) == pa.scalar(value)
    assert scalar_of(value).type == pa.scalar(value).type


def test_after_many_values_arrow_makes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "VALUES_MAX", 3)
    monkeypatch.setattr(arrays, "_bits", lambda _: pytest.fail("by hand"))
    with pytest.raises(pytest.fail.Exception, match="by hand"):
        array_of([True] * 4, pa.bool_())
    assert array_of([True], pa.bool_()).to_pylist() == [True]


def test_pandas_is_not_imported_and_works_afterwards() -> None:
    program = (
        "import sys, pyarrow as pa\n"
        "from wormdb.format.arrays import array_of, scalar_of\n"
        "table = pa.table({'n': array_of([1, None], pa.int64()), 's': array_of(['a', 'b'], pa.string())})\n"
        "scalar_of(1), scalar_of(None, pa.string())\n"
        "print('pandas' in sys.modules, table.to_pandas()['s'].tolist(), pa.array(table.to_pandas()['n']).null_count)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "['a',", "'b']", "1"]


def test_a_moment_before_1970_is_the_same() -> None:
    date = datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=UTC) - timedelta(days=40_000)
    assert scalar_of(date, pa.timestamp("ms", tz="UTC")).as_py() == date


FORKS = """
import importlib.abc, os, signal, sys, threading
from wormdb.format import arrays
import pyarrow as pa

begun = threading.Event()

class Slow(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "pandas" and not begun.is_set():
            begun.set()
            threading.Event().wait(1)

sys.meta_path.insert(0, Slow())
arrays.VALUES_MAX = -1
thread = threading.Thread(target=arrays.array_of, args=([1], pa.int64()))
thread.start()
assert begun.wait(60)
child = os.fork()
if not child:
    signal.alarm(20)
    os._exit(arrays.array_of([1, 2], pa.int64()).to_pylist() != [1, 2])
thread.join()
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_child_that_is_forked_while_pandas_is_imported_makes_arrays() -> None:
    """It waited for ever, for a thread that it did not have."""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", FORKS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
