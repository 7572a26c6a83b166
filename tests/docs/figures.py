"""Which constant each figure on a page comes from; what comes from none is an example, a measurement or a format.

A page reads best without marks, so the binding stands here: `BOUND` has, for each page, parts of sentences with braces
where a constant stands. `FREE` has the parts whose figures come from no constant. tests/docs/test_figures.py holds both
to the pages, and finds every figure that neither has.
"""

from __future__ import annotations

from wormdb import settings as limits
from wormdb.aio.runner import CALLS_AT_ONCE
from wormdb.api.class_versions import CLASS_DOCUMENTS_MAX
from wormdb.api.schema import DOCUMENTS_A_SECOND
from wormdb.cli.input.engine import auto_bytes
from wormdb.engine.commit.offers import OFFER_SLOTS, TIDY_AT
from wormdb.engine.commit.readers import PROBES_MAX
from wormdb.engine.commit.turns import DOOR_EVERY
from wormdb.engine.forward.rebuild_lists import PACKED_SPAN_BYTES, SPAN_BYTES
from wormdb.engine.forward.rewrite import SWAP_BLOCKS, TURN_SWAPS
from wormdb.engine.lists import calibrate, definition
from wormdb.engine.lists import shelf as lists
from wormdb.engine.tree import statistics
from wormdb.engine.tree.nodes import BYTES_TARGET, ENTRIES_TARGET
from wormdb.files.adopt.stage import PART_BYTES
from wormdb.files.write.tables import SMALL_BYTES
from wormdb.format import field_statistics, frequent, list_columns, list_part
from wormdb.format.block import PAGE_BYTES
from wormdb.jobs import analyze, costs
from wormdb.jobs.costs import INDEX_BYTES, PACKED, SPARE
from wormdb.jobs.node.pace import Pace
from wormdb.jobs.shares import TASK_BYTES
from wormdb.jobs.sources import PIECE_BYTES
from wormdb.maintenance.renaming import ROUNDS_MAX
from wormdb.query.planner.cache import PLANS_MAX
from wormdb.server.bucket_commands import BATCH_BYTES_MAX
from wormdb.server.buckets import SEEN_SECONDS
from wormdb.server.connection import OUTPUT_BYTES_HIGH, SLOW_SECONDS
from wormdb.server.parts import GUEST_SECONDS
from wormdb.server.requests import GUEST_BOUNDS, USER_BOUNDS
from wormdb.server.routing import GRACE_SECONDS, HAND_SECONDS, SUSPECT_SECONDS
from wormdb.server.session import CURSORS_MAX
from wormdb.settings import Settings
from wormdb.storage.cloud.identity import RENEW_BEFORE_MS
from wormdb.storage.folder.directories import LOCK_SECONDS_MAX, TICK_MS
from wormdb.storage.folder.time import PATIENCE_MS, SETTLING_MS
from wormdb.sync.push import PUT_BYTES_MAX

__all__ = ["BOUND", "FREE"]

DEFAULTS = Settings()
PACE = Pace()


def kib(size: float) -> str:
    return f"{size / limits.KIB:,g} KiB"


def mib(size: float) -> str:
    return f"{size / limits.MIB:,g} MiB"


def gib(size: float) -> str:
    return f"{size / limits.MIB / 1024:,g} GiB"


def seconds(count: float) -> str:
    return f"{count:,g} seconds"


def once(count: float) -> str:
    return "once a second" if count == 1 else f"once in {count:,g} seconds"


def minutes(count: float) -> str:
    return f"{count / 60:,g} minutes"


def hour(count: float) -> str:
    return "an hour" if count == 3_600 else f"{count / 3_600:,g} hours"


def days(count: float) -> str:
    return "a day" if count == 86_400 else f"{count / 86_400:,g} days"


def ms(count: float) -> float:
    """Seconds of milliseconds."""
    return count / 1000


_RETENTION = days(ms(DEFAULTS.log_retention_ms))
_CURSOR = minutes(ms(limits.CURSOR_MS_MAX))
_REMOVED = seconds(ms(limits.REMOVED_MS))
_ROOT = minutes(ms(limits.ROOT_MS_MAX))
_BREATH = f"{PACE.breath_seconds:g} s"
_BEAT = f"{PACE.interval_ms * PACE.idle_factor / 1000:g} s"
_REMEMBERED = days(ms(limits.JOBS_REMEMBERED_MS))
_SHARED = f"{PACE.shared_entries:,} entries or {mib(PACE.shared_bytes)}"

BOUND: dict[str, list[tuple[str, tuple[object, ...]]]] = {
    "ARCHITECTURE.md": [
        ("**Knowledge expires** after {} between two answers", (seconds(ms(limits.KNOWLEDGE_MS_MAX)),)),
        ("about {}", (once(ms(limits.FORWARD_INTERVAL_MS)),)),
        ("retired objects after {}, orphans after {}", (hour(ms(limits.RETIRED_MS)), days(ms(limits.ORPHAN_MS)))),
    ],
    "docs/design/0001-log-and-commit.md": [("An entry has at most {};", (mib(limits.ENTRY_BYTES_MAX),))],
    "docs/design/0003-knowledge-that-expires.md": [
        ("`log_retention_ms` ({}, never under {}", (_RETENTION, hour(ms(limits.LOG_RETENTION_MS_MIN)))),
        ("is trusted for {} between two answers", (seconds(ms(limits.KNOWLEDGE_MS_MAX)),)),
        ("is answered later than {} after its tail", (seconds(ms(limits.KNOWLEDGE_MS_MAX)),)),
        ("reads the root again every {}", (_ROOT,)),
    ],
    "docs/design/0004-groups-and-versions.md": [
        ("Every {} entries the queue", (DOOR_EVERY,)),
        ("waits a moment every {} entries", (DOOR_EVERY,)),
        ("It holds for {} slots from n+1 on", (OFFER_SLOTS,)),
        ("names all {} slots", (OFFER_SLOTS,)),
        ("removes {} of its own at a time", (TIDY_AT,)),
    ],
    "docs/design/0005-root-and-forwarding.md": [
        ("a sample of {} documents", (limits.SAMPLE_ROWS,)),
        ("removes them after {}", (days(ms(limits.ORPHAN_MS)),)),
        ("A root has at most {} and", (mib(limits.ROOT_BYTES_MAX),)),
    ],
    "docs/design/0006-runs-and-tiers.md": [
        ("the lowest tier is up to {}", (mib(limits.RUN_BYTES_SMALLEST),)),
        ("{} blocks a page", (limits.LIST_PAGE_BLOCKS,)),
    ],
    "docs/design/0009-queries.md": [("its cached way ({} a collection)", (PLANS_MAX,))],
    "docs/design/0010-history-and-moments.md": [("the newest {} jobs stay so", (limits.LOADS_KEPT,))],
    "docs/design/0011-schema-versions.md": [("in the background, {} at a time", (SWAP_BLOCKS * TURN_SWAPS,))],
    "docs/design/0012-bulk-jobs.md": [
        ("at most {} lie one over another", (limits.BULK_LAYERS_MAX,)),
        ("the newest {} attached jobs", (limits.LOADS_KEPT,)),
        (
            "the newest {:,} are kept, and up to {:,} for {}",
            (limits.JOBS_REMEMBERED, limits.JOBS_REMEMBERED_MAX, _REMEMBERED),
        ),
        ("not ended expires after {}", (days(ms(DEFAULTS.job_expiry_ms)),)),
    ],
    "docs/design/0013-garbage-collection.md": [("a cursor lives at most {}", (_CURSOR,))],
    "docs/design/0014-blobs.md": [
        ("documents of at most {}", (mib(limits.DOCUMENT_BYTES_MAX),)),
        ("beyond {} a temporary file", (mib(limits.UPLOAD_PART_BYTES),)),
        ("deletes it {} later", (hour(ms(limits.BLOB_CONDEMNED_MS)),)),
    ],
    "docs/design/0017-nodes.md": [
        ("turns of {} by", (seconds(ms(limits.NODE_WINDOW_MS)),)),
        ("floor(time / {:,} ms)", (limits.NODE_WINDOW_MS,)),
        ("up to {}, {}", (minutes(PACE.shared_seconds), _SHARED)),
    ],
    "docs/design/0026-readers-and-consistency.md": [("Up to {} probes are on their way at once", (str(PROBES_MAX),))],
    "docs/design/0029-transactions.md": [
        ("by answers within {} of T", (minutes(ms(limits.TRANSACTION_LEASE_MS)),)),
        ("is in the way for {}", (seconds(limits.TRANSACTION_ABANDONED_SECONDS),)),
        ("whole, up to {}", (mib(limits.TRANSACTION_PENDING_BYTES_MAX),)),
        ("writers wait for: {} at most", (seconds(limits.TRANSACTION_ABANDONED_SECONDS),)),
    ],
    "docs/design/0019-clocks.md": [
        ("within {}; then", (minutes(ms(SETTLING_MS)),)),
        ("took more than {} has", (seconds(ms(PATIENCE_MS)),)),
        ("unless that is {} ahead", (hour(ms(limits.MISC_LEAD_MS_MAX)),)),
    ],
    "docs/design/0020-deadlines-and-interrupts.md": [("At most {} such requests", (limits.UNANSWERED_MAX,))],
    "docs/explanation/indexes.md": [
        ("whose key is over {}", (kib(limits.INDEX_KEY_BYTES_MAX),)),
        ("fills nodes with {:,} entries", (ENTRIES_TARGET,)),
        ("a histogram of {} buckets", (statistics.BUCKETS,)),
        ("about {} is the target", (kib(BYTES_TARGET),)),
    ],
    "docs/explanation/scaling.md": [("blocks of {}, before", (mib(limits.BLOCK_BYTES_TARGET),))],
    "docs/first-steps.md": [("Log entries stay for {} after", (_RETENTION,))],
    "docs/format/objects.md": [
        ("pages of about {:g} KB", (PAGE_BYTES / limits.KIB,)),
        ("at most {} of them at equal distances", (frequent.SAMPLE_ROWS,)),
        ("of one type and {} bytes at most on average", (limits.FOUND_VALUE_BYTES_MAX,)),
        ("there are up to {}, the most frequent", (limits.FOUND_COLUMNS_MAX,)),
        ("of more than {} names or {} bytes", (limits.FOUND_PATH_DEPTH_MAX, limits.FOUND_PATH_BYTES_MAX)),
        ("entries through `rn` stay for {} after it", (_REMOVED,)),
        ("About {} of short lists share a page", (kib(list_part.PAGE_BYTES),)),
        ("A page of columns has about {} of lists by places", (kib(list_columns.COLUMN_PAGE_BYTES),)),
        ("are pages of {:,}, in ascending order", (list_part.IDS_PER_PAGE,)),
    ],
    "docs/design/0036-lists.md": [
        ("Objects up to {} are read whole", (mib(lists.WHOLE_BYTES_MAX),)),
        ("those at most {} apart by one request", (kib(lists.GAP_BYTES_MAX),)),
        ("pages of {} have one checksum", (kib(list_part.PAGE_BYTES),)),
        ("so up to {}, or {} of compressed lists", (mib(SPAN_BYTES), mib(PACKED_SPAN_BYTES))),
    ],
    "docs/design/0031-removal.md": [
        ("**The last entries stay for {}** after the first swap", (_REMOVED,)),
        ("for {} between two answers", (seconds(ms(limits.KNOWLEDGE_MS_MAX)),)),
    ],
    "docs/design/0039-rename.md": [
        ("The claim stays for {} after the stage", (_REMOVED,)),
        ("After {} rounds it gives up", (str(ROUNDS_MAX),)),
    ],
    "docs/design/0032-servers.md": [
        ("in the background {} later", (seconds(SUSPECT_SECONDS),)),
        ("asks again after {}, which is less than the minute", (seconds(SEEN_SECONDS),)),
        ("each waited for {}.", (seconds(HAND_SECONDS + GRACE_SECONDS),)),
    ],
    "docs/how-to/run-three-servers.md": [
        ("(`--interval`, {} by default)", (seconds(ms(limits.NODE_WINDOW_MS)),)),
    ],
    "docs/how-to/drop.md": [
        ("## The last {} of the log", (_REMOVED,)),
        ("So the last entries stay for {}, by the store's time", (_REMOVED,)),
    ],
    "docs/format/values.md": [
        ("| a document as JSON | {} | `DOCUMENT_BYTES_MAX`", (mib(limits.DOCUMENT_BYTES_MAX),)),
        ("| {} | `DOCUMENT_DEPTH_MAX`", (limits.DOCUMENT_DEPTH_MAX,)),
        ("| {:,} | `DOCUMENT_KEYS_MAX`", (limits.DOCUMENT_KEYS_MAX,)),
        ("| {} | `FIELD_NAME_BYTES_MAX`", (kib(limits.FIELD_NAME_BYTES_MAX),)),
        ("| {} | `ID_BYTES_MAX`", (kib(limits.ID_BYTES_MAX),)),
        ("| {} | `INDEX_KEY_BYTES_MAX`", (kib(limits.INDEX_KEY_BYTES_MAX),)),
        ("| {} | `SEGMENT_BYTES_MAX`", (limits.SEGMENT_BYTES_MAX,)),
    ],
    "docs/how-to/adopt.md": [
        ("is too large ({} as JSON)", (mib(limits.DOCUMENT_BYTES_MAX),)),
        ("each block of up to {},", (mib(PART_BYTES),)),
        ("of which one may have {}.", (mib(limits.FILE_BYTES_MAX),)),
        ("and may have {}: above that", (mib(limits.RECORDS_BYTES_MAX),)),
    ],
    "docs/how-to/arrow.md": [
        ("There are at most {} of them", (limits.FOUND_COLUMNS_MAX,)),
        ("no path of more than {} names", (limits.FOUND_PATH_DEPTH_MAX,)),
        ("no long texts ({} bytes on average)", (limits.FOUND_VALUE_BYTES_MAX,)),
    ],
    "docs/how-to/blobs.md": [
        ("Documents are for values: at most {}", (mib(limits.DOCUMENT_BYTES_MAX),)),
        ("asks for {} at a time", (mib(limits.BLOB_READ_BYTES),)),
        ("temporary file beyond {}", (mib(limits.UPLOAD_PART_BYTES),)),
        ("in parts of {}, four at a time", (mib(limits.UPLOAD_PART_BYTES),)),
        ("at most {}. A first", (gib(limits.BLOB_BYTES_MAX),)),
        ("above {} 1 PUT", (mib(limits.UPLOAD_PART_BYTES),)),
        ("condemns up to {:,}", (limits.BLOB_CONDEMNED_MAX,)),
    ],
    "docs/how-to/connect.md": [
        ("together have at most {:,} bytes", (limits.KEY_BYTES_MAX,)),
        ("a document's file, at most {})", (gib(limits.OBJECT_BYTES_MAX),)),
    ],
    "docs/how-to/cost.md": [
        ("one in {} or in {} entries", (_BREATH, PACE.breath_entries)),
        ("up to {:g} s, {}", (PACE.shared_seconds, _SHARED)),
        ("a PUT in {}, or in {:g} s beside writes", (_BEAT, ms(PACE.interval_ms))),
        ("a LIST in {:g} s, 2 more in {}", (PACE.look_seconds, minutes(PACE.discover_seconds))),
        ("a GET in {:g} s for each collection", (PACE.probe_seconds_max,)),
        ("writes of `log_retention_ms` ({})", (_RETENTION,)),
        ("bytes \N{MULTIPLICATION SIGN} {} \N{MULTIPLICATION SIGN} {}:", (PACKED, SPARE)),
        ("indexes \N{MULTIPLICATION SIGN} {} \N{MULTIPLICATION SIGN} {} |", (INDEX_BYTES, SPARE)),
        ("commits / {:,}", (DEFAULTS.forward_entries,)),
        ("3 GET and 2 for each {}, when a tenth", (mib(lists.STREAM_BYTES),)),
        ("and {} for each list that is read if", (costs.LISTS_JOINED,)),
        ("About {} \N{MULTIPLICATION SIGN} \N{SQUARE ROOT}(documents / {}) lists", (costs.LISTS_READ, costs.LIST_ROWS)),
        ("(dimensions + {}) \N{MULTIPLICATION SIGN} {}:", (costs.VECTOR_BYTES, SPARE)),
    ],
    "docs/how-to/errors.md": [
        ("up to {} times, with growing random pauses", (limits.RETRY_ATTEMPTS_MAX,)),
        ("has not answered for {}; what still runs", (seconds(limits.CLOSE_SECONDS),)),
    ],
    "docs/how-to/files.md": [("index files of more than {}", (kib(SMALL_BYTES),))],
    "docs/how-to/forward.md": [
        ("the smallest run ({})", (mib(limits.RUN_BYTES_SMALLEST),)),
        ("A batch of {} or more (`stage_bytes`)", (mib(DEFAULTS.stage_bytes),)),
        ("A process swaps a root {} (`forward_interval_ms`)", (once(ms(DEFAULTS.forward_interval_ms)),)),
        ("removes them {} later or more", (hour(ms(limits.RETIRED_MS)),)),
    ],
    "docs/how-to/functions.md": [
        ("at most {:,} functions, of at most {} each", (limits.FUNCTIONS_MAX, kib(limits.FUNCTION_BYTES_MAX)))
    ],
    "docs/how-to/gc.md": [
        ("cursors live {}, and a process reads the root again every {}", (_CURSOR, _ROOT)),
        ("{} after a run of gc first saw them retired", (hour(ms(limits.RETIRED_MS)),)),
        ("{} after they were opened (`job_expiry_ms`)", (days(ms(DEFAULTS.job_expiry_ms)),)),
        ("brought forward ({}); not while", (_RETENTION,)),
        ("{} after an entry condemned them", (hour(ms(limits.BLOB_CONDEMNED_MS)),)),
        ("up to {:,} of a kind", (limits.GC_SHOWN_MAX,)),
        ("at most {:,} victims", (limits.GC_VICTIMS_MAX,)),
    ],
    "docs/how-to/history.md": [("a document could hold, up to {}", (kib(limits.METADATA_BYTES_MAX),))],
    "docs/how-to/import.md": [
        ("Up to {:,} records of at most {} are one commit", (limits.IMPORT_RECORDS, mib(limits.IMPORT_BYTES))),
        ("after every {:,} records", (limits.IMPORT_RECORDS,)),
        (
            "newest {:,} jobs are remembered, and of up to {:,} for {}",
            (limits.JOBS_REMEMBERED, limits.JOBS_REMEMBERED_MAX, _REMEMBERED),
        ),
        ("Files of more than {} are read by Spark", (mib(auto_bytes("import")),)),
    ],
    "docs/how-to/jobs.md": [
        ("Up to {:,} different values are counted", (analyze.VALUES_MAX,)),
        ("a sample of {:,} documents", (analyze.SAMPLE_ROWS,)),
        (
            "{} frequent values and a histogram of {} parts",
            (field_statistics.TOP_MAX, field_statistics.BUCKETS),
        ),
        ("what was found, up to {} of it", (kib(limits.FIELD_STATISTICS_BYTES_MAX),)),
        ("in parts of about {}, side by side", (mib(PIECE_BYTES),)),
        ("from {} of work on", (seconds(limits.SPARK_AUTO_SECONDS),)),
        ("| aggregate | 200 | {} |", (mib(auto_bytes("aggregate")),)),
        ("| export | 25 | {} |", (mib(auto_bytes("export")),)),
        ("| compact | 17 | {} |", (mib(auto_bytes("compact")),)),
        ("| history | 13 | {} |", (mib(auto_bytes("history")),)),
        ("| import | 8 of the files | {} |", (mib(auto_bytes("import")),)),
        ("| rebuild | 7 | {} |", (mib(auto_bytes("rebuild")),)),
        ("| analyze | 6 | {} |", (mib(auto_bytes("analyze")),)),
        ("| verify | 2 | {} |", (mib(auto_bytes("verify")),)),
        ("| embed, with a function that takes no time | 1 | {} |", (mib(auto_bytes("embed")),)),
    ],
    "docs/how-to/local-folder.md": [
        ("younger than {} ms waits {} ms", (TICK_MS, TICK_MS + 1)),
        ("After a start, for {},", (minutes(ms(SETTLING_MS)),)),
        ("took longer than {}, and", (seconds(ms(PATIENCE_MS)),)),
        ("others wait for {}", (seconds(LOCK_SECONDS_MAX),)),
    ],
    "docs/how-to/nodes.md": [
        ("after {} at the latest", (seconds(limits.NODE_KILL_SECONDS + 1),)),
        ("turns of {} (`--interval`", (seconds(ms(limits.NODE_WINDOW_MS)),)),
        ("longer times, up to {}", (minutes(PACE.retry_seconds_max),)),
        ("a heartbeat every {}, a list", (_BEAT,)),
        ("collections every {}, less", (minutes(PACE.discover_seconds),)),
        ("brought forward every {}, one", (_BREATH,)),
        ("up to {}, {}", (minutes(PACE.shared_seconds), _SHARED)),
    ],
    "docs/how-to/serve.md": [
        ("100,000 arguments, {}; before", (mib(USER_BOUNDS.command_bytes),)),
        ("32 and {}, for {} |", (kib(GUEST_BOUNDS.command_bytes), seconds(GUEST_SECONDS))),
        ("documents, and about {}: a", (mib(BATCH_BYTES_MAX),)),
        ("{:,} documents, and {}; more", (limits.NEAR_ROWS_MAX, mib(BATCH_BYTES_MAX))),
        ("{:,} of a connection; the oldest", (CURSORS_MAX,)),
        ("its state for {} |", (_CURSOR,)),
        ("from {} on none of its commands begins; after {} it is", (mib(OUTPUT_BYTES_HIGH), seconds(SLOW_SECONDS))),
    ],
    "docs/coming-from-kronotop.md": [
        ("gives {:,} documents at most, and {}.", (limits.NEAR_ROWS_MAX, mib(BATCH_BYTES_MAX))),
        ("more than {:,} dimensions", (limits.VECTOR_DIMENSIONS_MAX,)),
    ],
    "docs/how-to/query.md": [("while others write, for {}", (_CURSOR,))],
    "docs/how-to/change-a-class.md": [
        ("about a second for each {}.", (f"{DOCUMENTS_A_SECOND:,}",)),
        ("looks at {} documents at most", (f"{CLASS_DOCUMENTS_MAX:,}",)),
    ],
    "docs/how-to/security.md": [("| {} minutes before they end", (RENEW_BEFORE_MS // 60_000,))],
    "docs/how-to/async.md": [("aio.connect(url, concurrency={})", (CALLS_AT_ONCE,))],
    "docs/how-to/schema-versions.md": [("by processes that write, {} at a time", (SWAP_BLOCKS * TURN_SWAPS,))],
    "docs/how-to/spark.md": [
        ("one for about {}, and", (mib(TASK_BYTES),)),
        ("up to {} blocks lie one over another", (limits.BULK_LAYERS_MAX,)),
    ],
    "docs/how-to/sync.md": [("Files up to {} are written", (mib(PUT_BYTES_MAX),))],
    "docs/design/0027-sync-of-files.md": [("Files above {} are uploaded", (mib(PUT_BYTES_MAX),))],
    "docs/how-to/transactions.md": [
        ("how long it may be open | {} (", (seconds(DEFAULTS.transaction_seconds),)),
        ("what it may write | {:,} bytes of documents", (DEFAULTS.transaction_bytes,)),
    ],
    "docs/how-to/verify.md": [
        ("the root that it knows for up to {}", (_ROOT,)),
        (
            "an object of lists above {} 1 more, and 1 for each {}.",
            (mib(lists.WHOLE_BYTES_MAX), mib(lists.STREAM_BYTES)),
        ),
    ],
    "docs/how-to/vectors.md": [
        ("{} of its own vectors are asked for", (calibrate.ASKED,)),
        ("more than {} times as long as they are", (definition.UNEVEN,)),
        ("more than {} times as many vectors are needed", (definition.SPREAD,)),
    ],
    "docs/reference/api.md": [
        ("of vectors 2 GETs for each {} of lists", (mib(lists.STREAM_BYTES),)),
        ("true answer is found by how many lists: {} stored", (calibrate.ASKED,)),
        ("Up to {:,} records of at most {} cost", (limits.IMPORT_RECORDS, mib(limits.IMPORT_BYTES))),
        ("is written meanwhile; for {}.", (_CURSOR,)),
        ("SnapshotTooOldError {} after the cursor", (_CURSOR,)),
        ("It can be read for {} from", (_CURSOR,)),
        ("then 1 GET for each {}. Raises", (mib(limits.BLOB_READ_BYTES),)),
        ("kept in memory up to {}, and", (mib(limits.UPLOAD_PART_BYTES),)),
        ("1 PUT up to {0} and else 1 for each {0} and 2 more", (mib(limits.UPLOAD_PART_BYTES),)),
        ("with up to {} of it in memory", (mib(limits.BLOB_READ_BYTES),)),
        ("0 at the end. 1 GET for each {}.", (mib(limits.BLOB_READ_BYTES),)),
    ],
    "docs/reference/command.md": [
        ("found, up to {}, and the planner uses it", (kib(limits.FIELD_STATISTICS_BYTES_MAX),)),
        ("the last entries of its log stay for {}, until worm gc", (_REMOVED,)),
    ],
}

# Examples, measurements, formats that golden files hold, and figures of other systems.
FREE: dict[str, list[str]] = {
    "docs/how-to/aws-lambda.md": ["Give the function 512 MB or more"],
    "docs/design/0037-vectors.md": [
        "36 to 53 requests and 5.8 to 7.6 MB before, and is 36 to 38 and 4.2 to 6.1 MB",
        "Its lists are 108 MB, were built in 105 s of processor time and measured in 9",
        "41 MB and 44 requests in a cold process",
        "then it is 3.2 ms, and 11 without it",
        "A stored one (1.4 MB, written again by each merge)",
        "two thirds of all lists, 28 MB",
        "the most that one of five reads is 5.99 MB and not 6.06",
    ],
    "docs/design/0036-lists.md": [
        "40 MB written again, against 0.8 MB",
        "of 200,000 documents in ten runs: 15.3 MiB of vectors of 64 numbers are joined in 0.7 to 0.9 s",
        "3.0 MiB of words, which are 2.2 million entries, in 3.7 s, and each range more takes 0.1 s",
        "A task that does nothing takes 0.12 to 0.16 s",
        "So a range of vectors or of words is 3 to 5 s, of which tasks take 5 %",
        "cut at 1 MiB, 16 tasks took 2.3 s for what one did in 0.8 s, and 16 MiB of words would be 20 s for one task",
    ],
    "docs/design/0032-servers.md": ["with 25 ms a GET and 100 ms a PUT, 64 connections"],
    "docs/how-to/serve.md": ["One that is idle takes about 3 KB"],
    "README.md": ["items have at most 400 KB", "a download of about 500 MB"],
    "docs/design/0004-groups-and-versions.md": [
        "entries a second at 100 ms a PUT",
        "writers each (25 ms a GET, 100 ms a PUT, in virtual time)",
    ],
    "docs/design/0005-root-and-forwarding.md": ["meant to stay under 1 MiB"],
    "docs/design/0012-bulk-jobs.md": ["a root of 85 kB; folding keeps it near 22 kB"],
    "docs/design/0013-garbage-collection.md": ["as 8 bytes a key"],
    "docs/design/0023-jobs-on-two-engines.md": ["about 15 seconds to start"],
    "docs/design/0026-readers-and-consistency.md": ["threads, 25 ms a request and a", "64 threads at 25 ms beside"],
    "docs/explanation/indexes.md": ["1.5 to 2 bytes a key"],
    "docs/explanation/scaling.md": [
        "documents of 1 KB",
        "| documents | 10 MB | 10 GB | 10 TB |",
        "at 100 MB/s | 0.1 s | under 2 minutes |",
        "200 MB at ten million documents, and 200 GB at ten billion",
        "at 50 ms some 20 a second",
        "at 25 ms a GET and 100 ms a PUT",
        "for 10 GB before compression",
    ],
    "docs/format/objects.md": [
        "BLAKE2b (16 bytes)",
        "These first 32 bytes",
        "under 200 bytes are not compressed",
        "zeros for the first | 32 bytes |",
        "(9 bytes, big-endian",
        "BLAKE2b of 8 bytes",
        "16,384 rows or 16 MiB of documents",
        "8 bytes each",
        "about 14 bytes",
        "of 1 KB has a map of about 13 KB",
        "47 KB if a tenth",
        "102 KB if all were, and 202 KB for",
        "the filter takes 82 KB",
        "one after another 8 bytes of the BLAKE2b",
    ],
    "docs/format/values.md": [
        "8 bytes: the greatest double",
        "4 bytes length, 1 byte subtype",
        "| `48` | 12 bytes |",
        "8 bytes: milliseconds",
        "4 bytes time, 4 bytes increment",
        "2^15 in 2 bytes",
    ],
    "docs/how-to/cost.md": ["1,000 each 0.1 s", "16.8 MB where 12.8 MB are needed, beside 62.6 MB", "a GET in 60 s |"],
    "docs/how-to/gc.md": ["8 bytes for each object"],
    "docs/how-to/import.md": [
        "8 bytes for each id and for each value",
        "at most 241 and 276 MB with ids in order",
        "247 and 281 MB with ids that the collection made",
        "250 and 313 MB with ids in random order",
    ],
    "docs/how-to/jobs.md": ["about 15 seconds to start", "documents of 1 KB"],
    "docs/how-to/spark.md": ["below some 100 MB", "One core and 1 GiB"],
    "docs/reference/limits.md": ["meant to stay under 1 MiB", "in about 15 seconds"],
    "docs/tutorial.md": ["here for 30 days"],
}
