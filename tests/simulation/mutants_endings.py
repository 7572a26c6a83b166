"""Ways to get the ends of documents wrong: what is over, how much of history is kept, what was erased.

Made and found as those of `mutants.py`; those of erasures by `tests.simulation.erasures`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from unittest import mock

from tests.simulation.erasures import play_erasures
from tests.simulation.mutants import Mutant, rewritten
from tests.simulation.run import SimulationFailed
from wormdb.engine.expiry import CollectionExpiry
from wormdb.engine.forward.erase import Eraser
from wormdb.engine.history.retention import HistorySieve, RetentionBound
from wormdb.engine.log.clock import MiscClock
from wormdb.engine.overdue import OverdueDocuments
from wormdb.engine.state.trim import Trimmer
from wormdb.engine.state.view import Overlay

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

__all__ = ["ENDING_MUTANTS", "ERASING_MUTANTS", "run_erasing"]


# --- documents that end by themselves ---


def over_by_wall_clock() -> AbstractContextManager[object]:
    return rewritten(MiscClock, ("now_ms = self._clock.now_ms() if best is None", "now_ms = self._clock.now_ms() if 1"))


def over_before_its_time() -> AbstractContextManager[object]:
    return rewritten(OverdueDocuments, ("known = self._shown\n", "known, now_ms = None, now_ms + 5_000\n"))


def shown_after_its_time() -> AbstractContextManager[object]:
    return rewritten(OverdueDocuments, ("known = self._shown\n", "known, now_ms = None, now_ms - 5_000\n"))


def looked_up_though_over() -> AbstractContextManager[object]:
    return mock.patch.object(CollectionExpiry, "living", lambda _, __, held: held)


def ends_kept_too_long() -> AbstractContextManager[object]:
    return rewritten(OverdueDocuments, ("known.since_ms <= now_ms < known.until_ms", "known.since_ms <= now_ms"))


def ends_of_the_tail_forgotten() -> AbstractContextManager[object]:
    return rewritten(OverdueDocuments, ("over += [key for key, due in tail.items()", "over += [key for key, due in ()"))


def ends_of_an_older_root() -> AbstractContextManager[object]:
    return rewritten(OverdueDocuments, ("and known.base() is view.base\n", "\n"))


# --- how much of history is kept ---


def one_version_too_few() -> AbstractContextManager[object]:
    return rewritten(RetentionBound, ("len(versions) - self.rule.versions", "len(versions) - self.rule.versions + 1"))


def all_versions_shown() -> AbstractContextManager[object]:
    return mock.patch.object(RetentionBound, "shown", lambda _, versions: versions)


def aged_by_their_own_time() -> AbstractContextManager[object]:
    """A version goes when it is old itself, though it was the document until a moment ago."""
    return rewritten(RetentionBound, ("max((place for place", "max((place + 1 for place"))


def dropped_before_the_log() -> AbstractContextManager[object]:
    return rewritten(HistorySieve, ("if row.rev > self.trimmed:", "if False:"))


def dropped_one_too_many() -> AbstractContextManager[object]:
    return rewritten(HistorySieve, ("len(held) > self.versions", "len(held) >= self.versions"))


ENDING_MUTANTS = [
    Mutant("over by the wall clock", over_by_wall_clock, "expiring", 0),
    Mutant("over before its time", over_before_its_time, "expiring", 1),
    Mutant("shown after its time", shown_after_its_time, "expiring", 1),
    Mutant("looked up though it is over", looked_up_though_over, "expiring", 2),
    Mutant("ends kept too long", ends_kept_too_long, "expiring", 2),
    Mutant("ends of the tail forgotten", ends_of_the_tail_forgotten, "expiring", 0),
    Mutant("ends of an older root", ends_of_an_older_root, "expiring", 1),
    Mutant("one version too few shown", one_version_too_few, "retaining", 0),
    Mutant("all versions shown", all_versions_shown, "retaining", 0),
    Mutant("versions aged by their own time", aged_by_their_own_time, "retaining", 1),
    Mutant("versions dropped before the log forgot them", dropped_before_the_log, "retaining", 12),
    Mutant("one version too many dropped", dropped_one_too_many, "retaining", 0),
]


# --- what was erased ---


def run_erasing(seed: int, workload: str, focus: str | None) -> None:
    """Run a seed of `tests.simulation.erasures`, which has one workload. Raises SimulationFailed."""
    try:
        play_erasures(seed, focus)
    except Exception as error:
        raise SimulationFailed(seed, workload, error, ()) from error


def blocks_kept() -> AbstractContextManager[object]:
    return mock.patch.object(Eraser, "run", lambda _, root, __: (root, {}))


def history_kept() -> AbstractContextManager[object]:
    return rewritten(
        Eraser, ('for where in ("blocks", "attached", "history", "brought"):', 'for where in ("blocks",):')
    )


def newer_rows_erased_too() -> AbstractContextManager[object]:
    return rewritten(Eraser, ("if row.rev > erased.get(", "if not erased.get("))


def log_kept() -> AbstractContextManager[object]:
    return mock.patch.object(Trimmer, "through", lambda _, root, *__: root.trimmed)


def log_trimmed_as_ever() -> AbstractContextManager[object]:
    return rewritten(Trimmer, ("root.erased_through)))", "0)))"))


def goes_on_counting() -> AbstractContextManager[object]:
    return rewritten(Overlay, ("if isinstance(event, DocumentErased):", "if False:"))


def old_blocks_not_retired() -> AbstractContextManager[object]:
    return rewritten(
        Eraser,
        (
            "return changed, {key: number for key, number in self._gone.items() if key not in named}",
            "return changed, {}",
        ),
    )


ERASING_MUTANTS = [
    Mutant("blocks keep what was erased", blocks_kept, "erasing", 0),
    Mutant("history keeps what was erased", history_kept, "erasing", 0),
    Mutant("what came after an erasure goes too", newer_rows_erased_too, "erasing", 8),
    Mutant("the log keeps what was erased", log_kept, "erasing", 0),
    Mutant("a log with an erasure trimmed as ever", log_trimmed_as_ever, "erasing", 0),
    Mutant("versions go on counting after an erasure", goes_on_counting, "erasing", 1),
    Mutant("erased blocks not retired", old_blocks_not_retired, "erasing", 1),
]
