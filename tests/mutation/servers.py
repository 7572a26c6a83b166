"""Ways to get writes wrong that one server hands to another."""

from __future__ import annotations

from tests.mutation.mutant import Mutant

__all__ = ["SERVER_FILES", "SERVER_MUTANTS"]

SERVER_FILES = ("server/withdrawal.py", "server/routing.py")
ROUTING = ("server/test_routing.py", "server/test_handover_sweep.py")

SERVER_MUTANTS = [
    Mutant("server/withdrawal.py", "        if _is_withdrawn(entries, mark):", "        if False:", ROUTING),
    Mutant(
        "server/withdrawal.py",
        "        if _is_withdrawn(_entries_after(view, self.number), self.mark):",
        "        if False:",
        ROUTING,
    ),
    Mutant(
        "server/withdrawal.py",
        "    if view.base_number > number:",
        "    if False:",
        reason="a root rarely moves between a look and a commit",
    ),
    Mutant("server/withdrawal.py", "        if found is not None:", "        if False:", ROUTING),
    Mutant("server/routing.py", "            if found is None:", "            if True:", ROUTING),
]
