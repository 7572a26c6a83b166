"""Ways to get the protocol wrong, part by part: `make mutants` applies each and sees whether the suite notices it.

The simulation has its own list (tests/simulation/mutants.py), and so has garbage collection
(tests/maintenance/gc/test_mistakes.py); those are noticed by every run of the suite.
"""

from __future__ import annotations

from tests.mutation.growing import GROWING_MUTANTS
from tests.mutation.mutant import Mutant
from tests.mutation.servers import SERVER_FILES, SERVER_MUTANTS
from tests.mutation.syncing import SYNC_FILES, SYNC_MUTANTS
from tests.mutation.transactions import TRANSACTION_FILES, TRANSACTION_MUTANTS

__all__ = ["AREAS", "MUTANTS"]

AREAS = {
    "commit": (
        "engine/commit/commit.py",
        "engine/commit/validate.py",
        "engine/bulk/stage.py",
        "engine/commit/resolve.py",
        "engine/commit/turns.py",
    ),
    "head": ("engine/commit/head.py", "engine/commit/readers.py", "engine/state/view.py"),
    "log": ("engine/log/entries.py",),
    "register": ("engine/log/root.py",),
    "forward": (
        "engine/forward/forward.py",
        "engine/forward/keeper.py",
        "engine/blocks/grow.py",
        "engine/state/successor.py",
    ),
    "trim": ("engine/state/trim.py",),
    "transactions": TRANSACTION_FILES,
    "gc": ("maintenance/gc/collect.py", "maintenance/gc/retired.py"),
    "unique": ("engine/index/unique.py", "engine/index/unique.py"),
    "readback": ("storage/readback.py",),
    "retry": ("storage/retry.py",),
    "cache": ("storage/cache.py",),
    "answers": (
        "storage/cloud/store.py",
        "storage/cloud/answer.py",
        "storage/cloud/azure.py",
        "storage/cloud/signed.py",
        "storage/cloud/verdict.py",
        "storage/cloud/wire.py",
    ),
    "folder": (
        "storage/folder/directories.py",
        "storage/folder/store.py",
        "storage/folder/time.py",
        "storage/folder/write.py",
    ),
    "bulk": ("engine/bulk/attach.py", "engine/bulk/attach.py", "engine/forward/rebuild.py", "engine/migrate.py"),
    "feed": ("engine/feed.py",),
    "blobs": ("engine/commit/blobs.py", "maintenance/gc/blobs.py"),
    "queries": (
        "engine/columns/scan.py",
        "engine/index/read.py",
        "engine/tree/entries.py",
        "query/execute/executor.py",
        "query/planner/cache.py",
        "query/planner/template.py",
    ),
    "sync": SYNC_FILES,
    "servers": SERVER_FILES,
    "files": ("files/write/guard.py", "files/write/publication.py", "files/write/publish.py", "files/write/record.py"),
}

COMMIT = ("engine/commit/test_commit.py", "engine/test_found_by_simulation.py", "engine/sweeps/test_sweep.py")
VALIDATE = ("engine/commit/test_validate.py",)
HEAD = ("engine/commit/test_head.py", "engine/commit/test_paused.py", "engine/test_found_by_simulation.py")
TEMPLATES = ("query/execute/test_templates_agree.py",)
READERS = ("engine/commit/test_readers.py",)
LOG = ("engine/log/test_entries.py", "engine/commit/test_head.py")
FORWARD = ("engine/forward/test_forward.py", "engine/forward/test_forwarding.py")
KEEPER = ("engine/forward/test_keeper.py", "engine/forward/test_keeper_files.py")
TRIM = ("engine/state/test_trim.py",)
GC = ("maintenance/gc/test_collect.py", "maintenance/gc/test_mistakes.py", "maintenance/gc/test_adoption.py")
UNIQUE = ("engine/index/test_unique.py", "engine/index/test_build.py")
BULK = ("engine/test_load.py", "engine/bulk/test_faults.py", "engine/bulk/test_layers.py")
ANSWERS = ("storage/cloud/test_answer.py", "storage/cloud/test_strangers.py", "storage/cloud/test_hostile_answers.py")
SIGNED = ("storage/cloud/test_signed.py",)
AZURE = ("storage/cloud/test_azure.py",)
FOLDER = ("storage/folder/test_faults.py",)
FEED = ("engine/test_feed.py", "api/test_feed.py")
BLOBS = ("blobs/test_blobs.py", "blobs/test_references.py", "blobs/test_bulk_blobs.py")
GC_BLOBS = ("blobs/test_gc_blobs.py", "blobs/test_sweep_blobs.py", "blobs/test_stateful_blobs.py")
FILES = (
    "files/write/test_publication.py",
    "files/test_keeper.py",
    "files/write/test_definitions.py",
    "files/write/test_sweep.py",
    "files/test_sync.py",
)


MUTANTS = [
    *SYNC_MUTANTS,
    *GROWING_MUTANTS,
    # --- commit ---
    Mutant("engine/commit/commit.py", "if not fresh:", "if False:", COMMIT),
    Mutant(
        "engine/commit/commit.py",
        "isinstance(outcome, NothingThere) and isinstance(cause, UnavailableError)",
        "isinstance(cause, UnavailableError)",
        COMMIT,
    ),
    Mutant(
        "engine/commit/commit.py", "state.root.trimmed >= attempt.number", "state.root.trimmed > attempt.number", COMMIT
    ),
    Mutant("engine/commit/commit.py", "if is_recent(attempt.known, time):", "if True:", COMMIT),
    Mutant("engine/commit/commit.py", "misc=self._misc.next(),", "misc=1,", ("api/test_time_travel.py",)),
    Mutant("engine/commit/validate.py", "and pending.is_alone) or", "and False) or", VALIDATE),
    Mutant(
        "engine/commit/validate.py",
        "if held is None and view.base_number <= loaded.number:",
        "if held is None:",
        VALIDATE,
    ),
    Mutant("engine/commit/validate.py", "must_exist and image is None", "must_exist and False", VALIDATE),
    Mutant("engine/commit/validate.py", "held.rev != rev", "held.rev < rev", VALIDATE),
    Mutant(
        "engine/commit/validate.py",
        "self._count += sum(",
        "self._count = sum(",
        ("engine/commit/test_validate.py", "engine/commit/test_group.py", "engine/state/test_definition.py"),
    ),
    Mutant(
        "engine/bulk/stage.py",
        "if id_key(change.id) in checked.rows:",
        "if False:",
        ("engine/bulk/test_stage_overtaken.py", "engine/bulk/test_stage_rivals.py"),
    ),
    Mutant(
        "engine/commit/resolve.py",
        "if root.trimmed >= slot or root.closed is not None:",
        "if root.closed is not None:",
        ("engine/commit/test_resolve.py",),
    ),
    Mutant(
        "engine/commit/resolve.py",
        "isinstance(outcome, Landed | Lost)",
        "isinstance(outcome, Landed)",
        ("engine/commit/test_resolve.py",),
    ),
    Mutant("engine/commit/resolve.py", "batch.id == commit.batch for", "True for", ("engine/commit/test_resolve.py",)),
    # --- head ---
    Mutant(
        "engine/commit/head.py",
        "if not self.opened or record.number > self.number + 1 or",
        "if not self.opened or",
        HEAD,
    ),
    Mutant("engine/commit/head.py", "known is not None and known.hash != record.hash", "False", HEAD),
    Mutant("engine/commit/head.py", "if record.entry.previous != self.hash:", "if False:", HEAD),
    Mutant(
        "engine/commit/head.py", "self.applied <= root.applied <= self.number", "self.applied <= root.applied", HEAD
    ),
    Mutant("engine/commit/head.py", " or self._is_root_old(tail.last)", "", (*HEAD, "maintenance/gc/test_readers.py")),
    Mutant("engine/commit/head.py", "if newest == revision:", "if False:", (*HEAD, "maintenance/gc/test_readers.py")),
    Mutant("engine/commit/head.py", "state.root.trimmed >= slot", "state.root.trimmed > slot", HEAD),
    Mutant("engine/commit/head.py", "ours.hash != state.root.hash_applied", "False", HEAD),
    Mutant("engine/commit/readers.py", "if len(self._senders) < PROBES_MAX:", "if True:", READERS),
    Mutant("engine/commit/readers.py", "if since is not None:", "if False:", READERS),
    Mutant("engine/commit/readers.py", "sender.order > reader.order and sender.number >= number", "False", READERS),
    Mutant("engine/commit/readers.py", "if self._head.caught_up:  #", "if True:  #", READERS),
    Mutant("engine/commit/readers.py", "if deadline is None or deadline.left > 0:", "if True:", READERS),
    Mutant("engine/commit/readers.py", " or not each.deadline.is_patient", "", READERS),
    Mutant("engine/commit/readers.py", "if each.is_away:", "if False:", READERS),
    Mutant("engine/commit/readers.py", "any(sender.sent > since for sender", "any(True for sender", READERS),
    Mutant("engine/commit/readers.py", "elif reader.is_served:", "elif False:", READERS),
    Mutant(
        "engine/commit/readers.py", "self._queue = {**unserved, **self._queue}", "self._queue = self._queue", READERS
    ),
    Mutant("engine/state/view.py", "if held.rev <= number:", "if True:", ("engine/state/test_view.py",)),
    Mutant(
        "engine/state/view.py",
        "if held.rev > number]",
        "if held.rev >= number]",
        reason="what the base has too is the same in the overlay",
    ),
    # --- log ---
    Mutant(
        "engine/log/entries.py",
        "                break\n            records.append",
        "                continue\n            records.append",
        LOG,
    ),
    Mutant("engine/log/entries.py", "ended=len(records) < len(numbers)", "ended=not records", LOG),
    Mutant("engine/log/entries.py", "first=min(times)", "first=max(times)", LOG),
    Mutant("engine/log/entries.py", "known = len(times) == len(probes)", "known = bool(times)", LOG),
    Mutant("engine/log/entries.py", "if not numbers or len(found) < len(numbers):", "if not numbers:", LOG),
    Mutant(
        "engine/log/entries.py",
        "root is not None and root.trimmed > after",
        "False",
        (*LOG, "engine/test_feed_parts.py", "engine/state/test_jobs.py"),
    ),
    # --- register ---
    Mutant(
        "engine/log/root.py",
        "return RootState(following, landed.version, landed.time)",
        "return RootState(following, current.version, landed.time)",
        ("engine/log/test_root.py", *FORWARD),
    ),
    Mutant(
        "storage/readback.py",
        "case NothingThere(cause=UnavailableError() as refusal):",
        "case Unknown(cause=UnavailableError() as refusal):",
        ("engine/log/test_root.py",),
    ),
    Mutant(
        "engine/log/root.py",
        "                current = None\n",
        "                pass\n",
        ("engine/log/test_root.py", "engine/forward/test_compact.py"),
    ),
    Mutant(
        "engine/forward/forward.py",
        "if found is not current:",
        "if False:",
        (*FORWARD, "engine/log/test_root.py"),
    ),
    Mutant(
        "engine/log/root.py",
        "return RootState(self.decode(probe.found.body), probe.found.version, probe.time)",
        "return RootState(self.decode(probe.found.body), probe.found.version, None)",
        ("engine/log/test_root.py", *TRIM),
    ),
    # --- forward ---
    Mutant("engine/forward/forward.py", "hash_applied=stage.digest", "hash_applied=root.hash_applied", FORWARD),
    Mutant(
        "engine/forward/forward.py",
        "jobs=stage.jobs.outcomes()",
        "jobs=root.jobs",
        (*FORWARD, "engine/state/test_jobs.py", "engine/bulk/test_stage.py"),
    ),
    Mutant(
        "engine/forward/forward.py",
        "definition=view.definition.body,",
        "definition=root.definition,",
        (*FORWARD, "engine/commit/test_define.py"),
    ),
    Mutant(
        "engine/forward/keeper.py",
        "if self._head.has_attached or self._wants_work:",
        "if self._wants_work:",
        reason="only the time: a commit brings what was attached into the root before it is checked",
    ),
    Mutant("engine/forward/keeper.py", "if state.applied < known:", "if False:", KEEPER),
    Mutant("engine/blocks/grow.py", "default=0)", "default=1)", ("engine/blocks/test_grow.py",)),
    Mutant(
        "engine/state/successor.py",
        "marks=with_mark(current.root, current.time),",
        "",
        reason="only the time: trimming makes the marks itself, and a mark that is missing delays a deletion",
    ),
    Mutant(
        "engine/state/successor.py",
        "older, listed = ObjectRef.of(name, body), ()",
        "older, listed = ObjectRef.of(name, body), listed",
        GC,
    ),
    # --- trim ---
    Mutant("engine/state/trim.py", "max(retention_ms, LOG_RETENTION_MS_MIN)", "retention_ms", TRIM),
    Mutant("engine/state/trim.py", "if found.key <= last]", "if found.key < last]", TRIM),
    Mutant(
        "engine/state/trim.py",
        'outcome.number - 1 for outcome in root.jobs if outcome.state == "open"',
        "0 for outcome in () if outcome",
        (*TRIM, "engine/test_load.py"),
    ),
    Mutant("engine/state/trim.py", "floors.append(floor)", "floors.extend(())", (*TRIM, "files/test_keeper.py")),
    Mutant(
        "engine/state/trim.py",
        "if number <= root.applied",
        "if True",
        reason="a mark is made of what a root has applied, and `applied` only grows",
    ),
    # --- gc ---
    Mutant("maintenance/gc/collect.py", "known.now - info.modified < ORPHAN_MS or ", "", GC),
    Mutant("maintenance/gc/collect.py", "since is None or info.modified < since or", "True or", GC),
    Mutant(
        "maintenance/gc/collect.py",
        "if any(isinstance(event, JobAttached) for entry in later",
        "if False and any(isinstance(event, JobAttached) for entry in later",
        GC,
    ),
    Mutant(
        "maintenance/gc/collect.py",
        "error, SnapshotTooOldError) and site.register.read().version == state.version",
        "error, SnapshotTooOldError) and False",
        GC,
    ),
    Mutant(
        "maintenance/gc/retired.py",
        "one if one.at is not None or one.log > root.trimmed else",
        "one if False else",
        GC,
    ),
    Mutant("maintenance/gc/retired.py", "if folder + one.name not in gone", "if True", GC),
    # --- unique ---
    Mutant("engine/index/unique.py", " if id_key(owner) not in self._touched)", ")", UNIQUE),
    Mutant("engine/index/unique.py", "owners._touched.add(key)", "pass", UNIQUE),
    Mutant(
        "engine/index/unique.py",
        "if owner is not None and id_key(owner) == name:",
        "if owner is not None:",
        reason="of a value that a document had before an entry no other document was the owner",
    ),
    Mutant(
        "engine/index/unique.py",
        "view.outdates(index)",
        "False",
        ("versions/test_versions.py",),
    ),
    Mutant(
        "engine/index/unique.py", "not begins <= root.applied <= view.number", "not root.applied <= view.number", UNIQUE
    ),
    Mutant("engine/index/unique.py", "if id_key(owner) not in touched:", "if True:", UNIQUE),
    # --- readback ---
    Mutant(
        "storage/readback.py",
        "return Lost(found) if isinstance(cause, UnavailableError) else Unknown(cause)",
        "return Lost(found)",
        ("storage/test_readback.py",),
    ),
    Mutant(
        "storage/readback.py",
        "return NothingThere(cause) if found is None else Lost(found)",
        "return Lost(found)",
        ("storage/test_readback.py",),
    ),
    Mutant(
        "storage/readback.py",
        "if found is not None and found.version == version:",
        "if found is not None:",
        ("storage/test_readback.py",),
    ),
    Mutant(
        "storage/readback.py",
        "return Unknown(cause, error)",
        "return NothingThere(cause)",
        ("storage/test_readback.py",),
    ),
    # --- retry ---
    Mutant(
        "storage/retry.py",
        "_WRITES if isinstance(precondition, Always | None) else ()",
        "_WRITES",
        ("storage/test_retry.py",),
    ),
    Mutant("storage/retry.py", "seen = max(last) if last else seen", "seen = after", ("storage/test_retry.py",)),
    Mutant("storage/retry.py", "is_paid = self._budget.take()", "is_paid = True", ("storage/test_retry.py",)),
    # --- cache ---
    Mutant(
        "storage/cache.py",
        "probe.found is not None and self._immutable(key)",
        "probe.found is not None",
        reason="what may change is never looked for in the cache",
    ),
    Mutant(
        "storage/cache.py",
        "return wide.start <= span.start and span.stop <= wide.stop",
        "return wide.start <= span.start",
        ("storage/test_cache.py",),
    ),
    Mutant("storage/cache.py", "if cost > self.bytes_max or", "if", ("storage/test_cache.py",)),
    # --- what answers prove ---
    Mutant("storage/cloud/wire.py", "NotSent(_describe(broken)) if answer.status < 300 else", "", ANSWERS),
    Mutant("storage/cloud/verdict.py", "404: Verdict.STRANGER,", "404: Verdict.MISSING,", ANSWERS),
    Mutant("storage/cloud/verdict.py", "if by_code in _ONLY_WITH and", "if False and", SIGNED),
    Mutant("storage/cloud/answer.py", "    if status < 300:", "    if False:", ANSWERS),
    Mutant("storage/cloud/answer.py", "    if size > bytes_max:", "    if False:", ANSWERS),
    Mutant("storage/cloud/answer.py", "        if total > bytes_max:", "        if False:", ANSWERS),
    Mutant("storage/cloud/answer.py", 'and known == "content-length":', "and False:", ANSWERS),
    Mutant("storage/cloud/answer.py", "may_continue and not stream.rest", "may_continue", ANSWERS),
    Mutant("storage/cloud/signed.py", "0 <= now_ms - held[0] < REUSE_MS", "now_ms - held[0] < REUSE_MS", SIGNED),
    Mutant("storage/cloud/signed.py", "0 <= now_ms - held[0] < REUSE_MS", "now_ms >= held[0]", SIGNED),
    Mutant("storage/cloud/signed.py", "or ended.status not in _REFUSALS:", "or True:", SIGNED),
    Mutant("storage/cloud/signed.py", "if not version or ended.body:", "if not version:", ANSWERS),
    Mutant(
        "storage/cloud/signed.py", "if ended.status == 206 and _fits(ended, span):", "if ended.status == 206:", ANSWERS
    ),
    Mutant("storage/cloud/azure.py", "self._resource + key,", "self._resource + quote(key),", AZURE),
    Mutant("storage/cloud/verdict.py", ', ("az", "DELETE"): 202', "", AZURE),
    Mutant("storage/cloud/store.py", "        if is_empty:", "        if False:", ANSWERS),
    Mutant(
        "storage/cloud/store.py", "part if len(part) == span.length else self.get_range(key, span)", "part", ANSWERS
    ),
    # --- a folder ---
    Mutant("storage/folder/write.py", "if error.errno in refusals:", "if True:", FOLDER),
    Mutant("storage/folder/write.py", "if os.path.samestat(found, temporary.info()):", "if False:", FOLDER),
    Mutant("storage/folder/directories.py", "state = info.st_ino, info.st_ctime_ns", "state = info.st_ino, 0", FOLDER),
    Mutant("storage/folder/directories.py", "return False  # what it is, the steps tell", "return True", FOLDER),
    Mutant(
        "storage/folder/time.py",
        "if is_recent and is_settled else None",
        "if is_recent else None",
        ("storage/folder/test_time.py",),
    ),
    Mutant(
        "storage/folder/time.py",
        "if is_recent and is_settled else None",
        "if is_settled else None",
        ("storage/folder/test_time.py",),
    ),
    Mutant(
        "storage/folder/store.py",
        "if info.st_size > self._bound(key):",
        "if False:",
        ("contract/test_contract_local.py::TestLocalStore::test_what_is_longer_is_not_read_whole",),
    ),
    # --- bulk ---
    Mutant("engine/bulk/attach.py", "or view.base_number > draft.view.number:", "or False:", BULK),
    Mutant("engine/bulk/attach.py", "if self._concerns(id_key(change.id), draft):", "if False:", BULK),
    Mutant("engine/bulk/attach.py", "or hashes_of(self.ledger, ids).repeated", "", BULK),
    Mutant("engine/bulk/attach.py", "if self._is_passed(key, draft):", "if False:", BULK),
    Mutant("engine/bulk/attach.py", "        self.ledger.blobs.check(self._blobs, view)\n", "", BLOBS),
    Mutant("engine/bulk/attach.py", "if owner != identity:", "if False:", BULK),
    Mutant(
        "engine/forward/rebuild.py",
        "        check_age(register.collection, state.time, place.root.revision, current)\n",
        "",
        ("jobs/test_rebuild.py", "engine/forward/test_compact.py"),
    ),
    Mutant(
        "engine/forward/rebuild.py",
        "return is_same and self.old.root.versions == self.root.versions",
        "return is_same",
        ("jobs/test_rebuild.py", "versions/test_versions_overtaken.py"),
    ),
    Mutant(
        "engine/migrate.py",
        "if view.base_number > self.draft.view.number:",
        "if False:",
        ("versions/test_versions_overtaken.py",),
    ),
    Mutant(
        "engine/migrate.py",
        "(attaches or any(batch.changes for batch in entry.batches))",
        "attaches",
        ("versions/test_versions_overtaken.py", "versions/test_versions.py"),
    ),
    # --- feed ---
    Mutant("engine/feed.py", "state.root.trimmed > self._number", "state.root.trimmed >= self._number", FEED),
    Mutant(
        "engine/feed.py",
        "state.time if state.applied <= self._number else None",
        "state.time",
        (*FEED, "engine/test_found_by_simulation.py"),
    ),
    Mutant("engine/feed.py", "held.seq == 1 or event.history", "held.seq == 1", (*FEED, "files/adopt")),
    # --- blobs ---
    Mutant("engine/commit/blobs.py", "usable = is_owned(view, key, self._trees)", "usable = True", (*BLOBS, *GC_BLOBS)),
    Mutant(
        "engine/commit/blobs.py",
        "return changed or is_owned(view.base, key, trees)",
        "return is_owned(view.base, key, trees)",
        reason="a batch begins to refer to a key of long ago only if a document of the state below owns it",
    ),
    Mutant("engine/commit/blobs.py", "if found != body.size:  #", "if found is None:  #", BLOBS),
    Mutant(
        "maintenance/gc/blobs.py",
        "isinstance(view.base, View) or view.base_number > self.seen.number",
        "isinstance(view.base, View)",
        GC_BLOBS,
    ),
    Mutant("maintenance/gc/blobs.py", "if candidates and not _has_open_job(view):", "if candidates:", GC_BLOBS),
    Mutant(
        "maintenance/gc/blobs.py",
        "plan.unowned = [key for key in candidates if key not in trashed]",
        "plan.unowned = candidates",
        GC_BLOBS,
    ),
    # Mistakes that an audit found to change nothing; each is a second line of defence.
    Mutant(
        "engine/commit/blobs.py",
        "if found != body.size or self._view().definition.blobs.is_usable(key) is not False:",
        "if True:",
        reason="only a refusal that could be avoided: the commit checks every key again",
    ),
    Mutant(
        "maintenance/gc/blobs.py",
        "            yield from blob_keys_in(change.trash)\n",
        "",
        reason="a document that goes to the trash was alive before, in the state or in an entry after it",
    ),
    Mutant(
        "maintenance/gc/blobs.py",
        "isinstance(view.base, View) or view.base_number > self.seen.number",
        "view.base_number > self.seen.number",
        reason="gc commits through a ledger of its own, so its batch has no company",
    ),
    Mutant(
        "engine/bulk/attach.py",
        "if any(isinstance(event, JobAttached) for event in entry.events):",
        "if False:",
        reason="what a job attached is in the root before the next commit is checked, so the base tells first",
    ),
    Mutant(
        "engine/migrate.py",
        "(attaches or any(batch.changes for batch in entry.batches))",
        "any(batch.changes for batch in entry.batches)",
        reason="what a job attached is in the root before the next commit is checked, so the base tells first",
    ),
    Mutant(
        "maintenance/gc/collect.py",
        "if key not in self._named(tail)} if known.due",
        "if True} if known.due",
        reason="what a root retired is never named again",
    ),
    Mutant(
        "maintenance/gc/collect.py",
        "            due &= found.sizes.keys()  # what was not listed may still be there\n",
        "            pass\n",
        reason="a leak of a day: an object whose name left the root unlisted is removed as one without a name",
    ),
    # --- queries ---
    Mutant(
        "engine/columns/scan.py",
        "newer = [(self.runs[place][0], other) for place in range(age) for other in self._near(place, entry)]",
        "newer = []",
        ("engine/columns/test_scan.py", "engine/columns/test_scan_loose.py"),
    ),
    Mutant(
        "engine/index/read.py",
        "if id_key(entry[1]) not in self.touched",
        "if True",
        ("engine/index/test_read.py",),
    ),
    Mutant(
        "engine/index/read.py",
        "first = [net for net in changed if net.key not in reader.own]",
        "first = changed",
        ("engine/index/test_read.py",),
    ),
    Mutant(
        "engine/tree/entries.py",
        "dict.fromkeys(set(was) - set(now))",
        "dict.fromkeys(set(was))",
        ("engine/tree",),
    ),
    Mutant(
        "query/execute/executor.py",
        "if order > after]",
        "if order >= after]",
        ("api/test_query_pages.py", "api/test_query_cursor.py"),
    ),
    Mutant(
        "query/planner/cache.py",
        "self.version == facts.version and self.level == facts.kept.level and self.indexes == facts.index_definitions",
        "True",
        ("query/planner/test_cache.py",),
    ),
    Mutant("query/planner/template.py", "facts.traits != self.traits or ", "", TEMPLATES),
    Mutant("query/planner/template.py", "encode_key(filters[slot].value)", "encode_key(filters[0].value)", TEMPLATES),
    Mutant("query/planner/template.py", "and bound[0] == root", "", TEMPLATES),
    Mutant("query/planner/template.py", "[filters[place] for place in step.places]", "[filters[-1]]", TEMPLATES),
    # --- files ---
    Mutant("files/write/guard.py", "number_in(found.body, is_entity=draft.is_entity) > draft.number", "False", FILES),
    Mutant(
        "files/write/guard.py",
        "precondition = IfMatch(found.version)",
        "precondition = None or IfMatch(store.head(draft.key).version)",
        FILES,
    ),
    Mutant("files/write/publication.py", "min(lost.after, self.record.through)", "self.record.through", FILES),
    Mutant(
        "files/write/publication.py",
        "if seen.version.rev > counted)",
        ")",
        reason="only the time: a table that counts a change twice is written sooner",
    ),
    Mutant(
        "files/write/publish.py",
        "if held is not None and held.rev <= window.through:",
        "if held is not None:",
        reason="only work: what a later window changes again is written with the newest state twice",
    ),
    Mutant(
        "files/write/record.py",
        "return known.version == (None if found is None else found.version)",
        "return True",
        reason="it ends early what loses the swap of the record, and that is looked at again in any case",
    ),
    *TRANSACTION_MUTANTS,
    *SERVER_MUTANTS,
]
