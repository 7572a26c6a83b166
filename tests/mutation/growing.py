"""Ways to get wrong where a read ends while others write; more of them are in `tests.simulation.mutants_chases`."""

from __future__ import annotations

from tests.mutation.mutant import Mutant

__all__ = ["GROWING_MUTANTS"]

GROWING = ("engine/commit/test_growing_log.py",)
HEAD = ("engine/commit/test_head.py",)
LOG = ("engine/log/test_entries.py",)

GROWING_MUTANTS = [
    Mutant("engine/log/entries.py", "if self.distance and self.enough is None", "if False", GROWING),
    Mutant("engine/log/entries.py", "if self.distance and self.enough is None", "if self.distance", GROWING),
    Mutant("engine/log/entries.py", "2 * max(self.distance, TAIL_PROBES_MAX)", "2 * TAIL_PROBES_MAX", GROWING),
    Mutant("engine/log/entries.py", "if answer.ended or chase.is_over(after):", "if answer.ended:", GROWING),
    Mutant("engine/log/entries.py", "else LogNumber(mark - 1)", "else LogNumber(mark - 2)", LOG),
    Mutant("engine/log/entries.py", "mark is None or probes[0].found is not None", "mark is None", LOG),
    Mutant("engine/commit/head.py", "tail.ended or is_enough", "tail.ended", GROWING),
    Mutant("engine/commit/head.py", " and not chase.is_over(self.number)", "", GROWING),
    Mutant("engine/commit/head.py", "if self._openings == opening:  #", "if True:  #", HEAD),
    Mutant("engine/commit/readers.py", "if sender is reader or 0 < sender.order < reader.order:", "if True:", GROWING),
    Mutant(
        "engine/commit/readers.py",
        "if each.enough is not None and number >= each.enough",
        "if reader.enough and number >= reader.enough",
        GROWING,
    ),
    Mutant("engine/commit/readers.py", "for each in (*reader.readers, reader):", "for each in (reader,):", GROWING),
]
