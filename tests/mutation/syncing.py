"""Ways to get the sync of a folder and a bucket wrong."""

from __future__ import annotations

from tests.mutation.mutant import Mutant

__all__ = ["SYNC_FILES", "SYNC_MUTANTS"]

SYNC_FILES = ("sync/folder.py", "sync/pull.py", "sync/push.py", "sync/remote.py", "sync/upkeep.py")
SYNC = tuple(f"sync/test_{name}.py" for name in ("traps", "listing", "old_clients", "sweep", "clones"))

SYNC_MUTANTS = [
    Mutant("sync/remote.py", "if name in parts and parts[name].seq > note.seq:", "if False:", SYNC),
    Mutant(
        "sync/remote.py",
        "held = self.read_part(name, held.key) or self._renewed(held)",
        "held = self.read_part(name, held.key) or self.empty_part(name, held.key)",
        SYNC,
    ),
    Mutant("sync/pull.py", "if part.part.seq > listed[name].seq}", "if False}", SYNC),
    Mutant("sync/push.py", "if not self._may_replace(found.body, change, entry) and", "if False and", SYNC),
    Mutant("sync/push.py", 'if is_gone and not upload.is_new and self._policy != "keep-local":', "if False:", SYNC),
    Mutant("sync/push.py", "return abs(self._index.now_ms() - entry.deleted) < DELETE_MS", "return False", SYNC),
    Mutant("sync/push.py", 'if change.before is not None and self._policy != "keep-local":', "if False:", SYNC),
    Mutant("sync/push.py", "return known.is_applied and {", "return {", SYNC),
    Mutant("sync/push.py", "if before is not None and there.identity != before.synced:", "if False:", SYNC),
    Mutant(
        "sync/push.py",
        "if not others <= push.manifest.manifest.partitions.keys() and push.manifest.version is not None:",
        "if False:",
        SYNC,
    ),
    Mutant("sync/folder.py", "if self.look(path) != expected or self.is_taken(path):", "if False:", SYNC),
    Mutant("sync/folder.py", "if found != expected:", "if False:", SYNC),
    Mutant("sync/upkeep.py", "digest_of(old.entries) == shim.digest", "True", SYNC),
    Mutant("sync/upkeep.py", "held = self._index.update_manifest(held, lambda one: one)", "pass", SYNC),
    Mutant("sync/upkeep.py", "if self._swap(key, closed, held_part):", "if True:", SYNC),
]
