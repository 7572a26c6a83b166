"""Plain values: what a user may set, and every bound, each with a name. No I/O."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Final, Literal, get_args

from wormdb.errors import InvalidRequestError

__all__ = ["BrokenChoice", "ForeignCheck", "ForwardChoice", "Settings", "SourceChoice"]


# --- Bounds that a caller can meet, each with a name; docs/reference/limits.md is made of them.
#
# Limits protect the process that reads as much as the one that writes: they are checked before recursion and before
# decompression. A constant that only tunes one module stands in that module.

KIB: Final = 1024
MIB: Final = 1024 * KIB

# --- documents ---
DOCUMENT_BYTES_MAX: Final = 16 * MIB
"""Size of one document as stored (JSON)."""
DOCUMENT_DEPTH_MAX: Final = 100
"""Levels of nesting; the document itself is level 1."""
DOCUMENT_KEYS_MAX: Final = 10_000
"""Fields on one level."""
FIELD_NAME_BYTES_MAX: Final = 1 * KIB
"""UTF-8 bytes of one field name."""
INT_MAX: Final = 2**63 - 1
INT_MIN: Final = -(2**63)
ID_BYTES_MAX: Final = 1 * KIB
"""Bytes of a string or binary `_id`."""
SEQUENCE_MAX: Final = 10**18 - 1
"""The greatest number that the counter of a collection gives, and the greatest id of digits that it counts."""
INDEX_KEY_BYTES_MAX: Final = 4 * KIB
"""Encoded bytes of one index key."""
ACTOR_BYTES_MAX: Final = 1 * KIB
"""UTF-8 bytes of the name of an actor."""
METADATA_BYTES_MAX: Final = 64 * KIB
"""Metadata of a change as JSON: it is kept with every document of the batch."""

# --- schemas ---
SCHEMA_BYTES_MAX: Final = 4 * MIB
"""Size of a schema.json; its definitions are part of every root."""
PATTERN_CHARS_MAX: Final = 500
"""Characters of the regular expression of a dynamic type."""
PATTERN_WAYS_MAX: Final = 20_000_000
"""Ways in which such an expression may match: three repeats without end over one id."""

# --- object keys ---
KEY_BYTES_MAX: Final = 1024
"""UTF-8 bytes of a whole object key below the root: S3's and R2's limit."""
SEGMENT_BYTES_MAX: Final = 240
"""UTF-8 bytes of one key segment: file systems allow 255, and a temporary name needs room."""

# --- stored objects ---
ENTRY_BYTES_MAX: Final = 64 * MIB
"""A log entry, uncompressed: no batch is larger."""
ROOT_BYTES_MAX: Final = 16 * MIB
"""A root, uncompressed; it is meant to stay under 1 MiB."""
ROOT_BYTES_FULL: Final = ROOT_BYTES_MAX - 64 * KIB
"""A root that forwarding makes: others that swap it add a little."""
NODE_BYTES_MAX: Final = 16 * MIB
"""A B+tree node, uncompressed."""
SIDECAR_BYTES_MAX: Final = 64 * MIB
"""A block's sidecar, uncompressed."""
PAGE_BYTES_MAX: Final = 64 * MIB
"""One page of a block, uncompressed: holds at least one document of the largest size."""
FILE_BYTES_MAX: Final = 4 * DOCUMENT_BYTES_MAX
"""A readable file that is read whole: a document, or a change with what was before it and after it."""
RECORDS_BYTES_MAX: Final = 256 * MIB
"""Lines of all files of a collection that is read in place, many documents a file, unpacked: they are in memory."""
OBJECT_BYTES_MAX: Final = 1024 * MIB
"""Any other object that is read whole, such as a block that is verified, or a manifest. No kind may be larger."""

# --- requests ---
POOL_THREADS: Final = 32
"""Requests in flight from one process."""
LIST_PAGE_KEYS: Final = 1000
"""Keys in one page of a listing; what S3 bills as one request."""
DELETE_MANY_KEYS: Final = 1000
"""Keys in one bulk delete request."""
RANGE_GAP_BYTES_MAX: Final = 32 * KIB
"""Ranges closer than this are read in one request: cheaper than asking twice."""
UPLOAD_PART_BYTES: Final = 8 * MIB
"""From this size on an object is written in parts, each of this size but the last."""
UPLOAD_PARTS_AT_ONCE: Final = 4
"""Parts of one object on their way at the same time."""
RETRY_ATTEMPTS_MAX: Final = 5
"""Tries of one unconditional request, the first included."""
RETRY_DELAY_SECONDS_MAX: Final = 5.0
ANSWER_BYTES_MAX: Final = 1 * MIB
"""What is read of an answer that is not an object: to a write, to a question about a bucket, of an error."""
REQUEST_SECONDS: Final = 10.0
"""How long a request may go without a byte of its answer."""
REQUEST_SECONDS_FACTOR: Final = 3
"""A request in which bytes keep coming may take this many times as long, and longer if it is large."""
REQUEST_BYTES_A_SECOND: Final = 128 * KIB
"""A slower transfer than this is given up."""
CONNECT_TIMEOUT_SECONDS: Final = 5.0
READ_SECONDS: Final = 60.0
"""How long a read may take."""
GRACE_SECONDS: Final = 0.5
"""After its deadline a call does not try again; what is on its way may still come for this long."""
CLOSE_SECONDS: Final = 3.0
"""How long closing a database waits for an answer of the store."""
UNANSWERED_MAX: Final = 256
"""Requests of a process that were given up and may still hold a thread: no more are begun beyond it."""

# --- blobs ---
BLOB_BYTES_MAX: Final = 64 * 1024 * MIB
"""Size of one blob: what fits into 10,000 parts, which is as many as S3 takes."""
BLOB_READ_BYTES: Final = 4 * MIB
"""Bytes of a blob that a reader asks for at once."""
BLOB_TYPE_CHARS_MAX: Final = 255
"""Characters of the content type of a blob, and of the name that it had."""
BLOB_UNOWNED_MS: Final = 24 * 3_600_000
"""How long a blob stays that no document refers to, after it was written, by the store's time."""
BLOB_CONDEMNED_MS: Final = 3_600_000
"""How long a blob stays after an entry said that it goes: readers of older states may be at it."""
BLOB_KEYS_REMEMBERED: Final = 10_000
"""Blobs of one collection of which a process remembers that they are there."""
BLOB_CONDEMNED_MAX: Final = 10_000
"""Condemned blobs that a root remembers, and so that gc condemns before it deletes them."""
BLOB_CONDEMNED_AT_ONCE: Final = 1_000
"""Blobs that one entry says this of."""

# --- the log ---
TAIL_PROBES_MAX: Final = 256
"""Guesses of the next log numbers in one round, at most; they double while entries are found."""
TAIL_ENTRIES_MAX: Final = 10_000
"""Entries that no root has applied; beyond it commits wait for forwarding."""
TAIL_BYTES_MAX: Final = 256 * MIB
"""Bytes of such entries."""
MISC_LEAD_MS_MAX: Final = 3_600_000
"""By how much the time of an entry may be ahead of now: one further ahead is not written, and none follows it."""
DATED_MAX: Final = 64
"""Corrections of times in a root."""
EXPIRE_DOCUMENTS_MAX: Final = 1_000
"""Documents whose time is over that one entry removes at most."""
KNOWLEDGE_MS_MAX: Final = 60_000
"""How long what a process knows of a collection is trusted, between two answers, by the store's time."""
REMOVED_MS: Final = 90_000
"""Entries of a removed collection stay this long after its root says so: KNOWLEDGE_MS_MAX, and what the clocks of a
store's machines may differ by."""
ROOT_MS_MAX: Final = 600_000
"""How old the root is that a process reads from, by the store's time, before it reads it again."""
LOG_RETENTION_MS_MIN: Final = 3_600_000
"""Entries stay at least this long after they are applied, whatever the setting says."""
COMMIT_SECONDS: Final = 30.0
"""How long a commit tries before it gives up."""
TRANSACTION_SECONDS: Final = 5.0
"""How long a transaction may be open before it commits, unless the settings say otherwise."""
TRANSACTION_BYTES: Final = 10_000_000
"""Bytes that a transaction may write, unless the settings say otherwise."""
GROUP_BATCHES_MAX: Final = 1_000
"""Batches committed together in one entry."""
MARKS_MAX: Final = 64
"""Times that a root remembers of when entries were applied."""

RETIRED_INLINE_MAX: Final = 256
"""Retired objects that a root lists itself; more are moved to a list of their own."""
UNPUBLISHED_MS_MAX: Final = 12 * 3_600_000
"""How old the root may be that a job planned with, by the store's time, when another names what it wrote: half of the
time after which objects that no root names may be removed."""
SPARK_AUTO_SECONDS: Final = 30
"""What one core takes for a job from which on `--engine auto` takes Spark. That starts in about 15 seconds (12 to 20
were measured), and on two cores does in half of the time what Python code in threads does one after the other."""
JOBS_REMEMBERED: Final = 1_000
"""Ended bulk jobs whose outcome a root remembers: of attached ones, and of others, each."""
JOBS_REMEMBERED_MS: Final = 30 * 86_400_000
"""How long more of those that were attached are remembered, up to `JOBS_REMEMBERED_MAX`."""
JOBS_REMEMBERED_MAX: Final = 10_000
LOADS_KEPT: Final = 16
"""Attached jobs of each tier of size whose blocks stay as they are; of twice as many the older ones become rows of
history."""
FOLD_BYTES: Final = 64 * MIB
"""Bytes of attached blocks that one forwarding makes such rows of; more if they are of one job."""
BULK_REPORT_BYTES_MAX: Final = 256 * MIB
"""What one task of a bulk job says of the blocks that it wrote."""
BULK_DIGESTS_INLINE_MAX: Final = 1 * MIB
"""Bytes of hashes in such a report; more of them are an object of their own."""
BULK_PORTION_BYTES: Final = 96 * MIB
"""Bytes of documents that a task of a bulk job sorts at once."""
BULK_LAYERS_MAX: Final = 16
"""Runs of one bulk job that may overlap when it is attached: a look-up asks the filter of each until the log is
forwarded, which makes one of them."""
VECTOR_DIMENSIONS_MAX: Final = 4_096
"""Numbers in one vector."""
NEAR_ROWS_MAX: Final = 1_000
"""Documents that a query for the nearest ones gives at most."""
PURGE_MAX: Final = 10_000
"""Documents that one batch takes from the trash."""
STAGE_BYTES: Final = 2 * MIB
"""Bytes of a batch from which on it is staged as blocks instead of going through the log."""
FORWARD_INTERVAL_MS: Final = 1_000
"""A process swaps a root once in this time, but for a few swaps after a rest."""
FILES_INTERVAL_MS: Final = 1_000
"""With readable files, a commit brings the log forward if one before it has waited this long."""
FILES_SECONDS: Final = 60
"""A manifest or index file with changes that wait is written again after this time."""

# --- blocks ---
BLOCK_BYTES_TARGET: Final = 64 * MIB
"""Bytes of documents at which a block is closed, before compression."""
RUN_BYTES_SMALLEST: Final = 1 * MIB
"""A stored run up to this size counts for the lowest tier of merging."""
LIST_INLINE_BYTES_MAX: Final = 32 * KIB
"""Entries of the blocks of one run that a root holds itself; a longer list is moved to pages."""
LIST_PAGE_BLOCKS: Final = 512
"""Blocks that one page of the block list names."""
LIST_PAGE_BYTES: Final = 1 * MIB
"""Bytes of entries at which such a page is closed before."""
FOUND_COLUMNS_MAX: Final = 64
"""Columns of a block up to which frequent paths become columns without being declared; declared ones always are."""
FOUND_PATH_DEPTH_MAX: Final = 8
"""Names in such a path."""
FOUND_PATH_BYTES_MAX: Final = 255
"""Bytes of such a path."""
FOUND_VALUE_BYTES_MAX: Final = 128
"""Bytes of its values on average, at most."""
SHELF_BYTES_MAX: Final = 32 * MIB
"""What one folder of blocks may keep unpacked of each: pages of the list, page maps, filters."""
COLUMNS_CACHE_SHARE: Final = 0.5
"""The part of the setting `cache_bytes` for columns that stay decoded; the rest is for objects as they are stored."""
SAMPLE_ROWS: Final = 100
"""Documents of the sample in the root; fewer if they are long."""
SAMPLE_BYTES_MAX: Final = 64 * KIB
"""Of all of them together, before compression."""
SAMPLE_DOCUMENT_BYTES_MAX: Final = 4 * KIB
"""A document that is longer, when its texts are shortened, is not in the sample."""
SAMPLE_TEXT_CHARS: Final = 64
"""To which a sample shortens each text in a document."""
FIELD_STATISTICS_BYTES_MAX: Final = 64 * KIB
"""What the root keeps of an analysis of fields, before compression; fields that do not fit are left out."""

# --- garbage collection ---
RETIRED_MS: Final = 3_600_000
"""How long objects stay after a root was seen that no longer names them, by the store's time."""
ERASED_MARKS_MAX: Final = 1_000
"""Erasures that a root remembers: an older one is answered as an id that never was."""
ORPHAN_MS: Final = 86_400_000
"""How old objects are, by the store's time, that no root has ever named when they are taken for garbage."""
JOB_EXPIRY_MS_MIN: Final = 3_600_000
"""How long a bulk job may be open at least before it is given up."""
GC_LIST_NAMES: Final = 10_000
"""Retired objects in one list beside the root."""
GC_VICTIMS_MAX: Final = 50_000
"""Objects without a name that are held in memory; more of them go in further rounds."""
GC_SHOWN_MAX: Final = 1_000
"""Objects of one kind that a report lists; more of them are counted only."""

# --- queries ---
FILTER_DEPTH_MAX: Final = 50
"""Filters within filters: $and, $or, $nor, $not and $elemMatch."""
FILTER_CONDITIONS_MAX: Final = 2_000
"""Conditions of one filter, all levels together."""
SEARCH_WORDS_MAX: Final = 100
"""Words of one text search, those of phrases and those to leave out counted too."""
SEARCH_CHARS_MAX: Final = 4_096
"""Characters of one text search."""
TEXT_FIELDS_MAX: Final = 16
"""Fields of one text index."""
STOP_WORDS_MAX: Final = 1_000
"""Words that one text index leaves out."""
FILTER_VALUES_MAX: Final = 100_000
"""Values of all lists of $in, $nin and $all of one filter."""
REGEX_BYTES_MAX: Final = 32 * KIB
"""UTF-8 bytes of the pattern of one $regex."""

# --- updates and aggregation ---
ARRAY_PADDING_MAX: Final = 1_500_000
"""Elements of null that an update may put before a position after the end of an array."""
UPDATE_PATHS_MAX: Final = 10_000
"""Fields that one update names."""
PROJECTION_PATHS_MAX: Final = 10_000
"""Parts of documents that one projection names."""
GROUPS_MAX: Final = 1_000_000
"""Groups of one aggregation: each is held in memory."""
SORT_FIELDS_MAX: Final = 32
"""Fields of one sort."""
INDEX_FIELDS_MAX: Final = 32
"""Fields of a compound index."""

FUNCTIONS_MAX: Final = 1_000
"""Functions of one collection: named filters."""
FUNCTION_BYTES_MAX: Final = 64 * 1024
"""The filter of one of them, as JSON."""

# --- answers ---
POPULATE_DEPTH_MAX: Final = 4
"""Refs that one name of populate follows, one from the other."""
POPULATE_ROWS: Final = 1_000
"""Rows whose refs are fetched together."""
CURSOR_MS_MAX: Final = 1_800_000
"""How long the state of a cursor can be read: the objects that it needs are kept for longer."""

# --- importing ---
RECORD_BYTES_MAX: Final = 2 * DOCUMENT_BYTES_MAX
"""One record of a file that is imported, as it is written there."""
IMPORT_RECORDS: Final = 10_000
"""Up to this number of records an import is one commit; more of them are a bulk job."""
IMPORT_BYTES: Final = 2 * MIB
"""Bytes of records up to which it is."""
IMPORT_PORTION_BYTES: Final = 8 * MIB
"""Bytes of documents that an import sorts at once."""
IMPORT_BLOCK_BYTES: Final = 16 * MIB
"""Bytes of documents at which an import closes a block: it takes three times that while it is made."""

# --- services ---
NODE_WINDOW_MS: Final = 5_000
"""How long one node looks after a collection before it is the next one's turn."""
NODE_INTERVALS_LIVE: Final = 3
"""A node counts as dead when its heartbeat did not change for this many of its intervals."""
NODES_LOOK_SECONDS: Final = 60
"""How often, at most, the folder of heartbeats is listed."""
STORE_SILENCE_SECONDS: Final = 5.0
"""A node whose store has not answered for this long is not well."""
NODE_STOP_SECONDS: Final = 4.0
"""How long a node that is told to stop waits for an answer of the store."""
NODE_KILL_SECONDS: Final = 9.0
"""After this time its process ends, whatever it waits for."""
HEARTBEAT_BYTES_MAX: Final = 1 * MIB
"""A heartbeat, as JSON."""
TRANSACTION_BYTES_MAX: Final = 1 * MIB
"""The record of a transaction over several collections."""
TRANSACTION_ABANDONED_SECONDS: Final = 5.0
"""How long a transaction that is not decided is waited for by what it is in the way of; then it is aborted."""
TRANSACTION_LEASE_MS: Final = 600_000
"""All collections of a transaction have it prepared within this time of its beginning, by the store's time."""
TRANSACTION_RECORD_MS: Final = 3_600_000
"""How long the record of a transaction stays at least after that began."""
TRANSACTION_PENDING_BYTES_MAX: Final = 1 * MIB
"""What a root carries of transactions that are not finished; with more, forwarding stops before them."""
HEARTBEAT_COLLECTIONS_MAX: Final = 1_000
"""Collections that a heartbeat names; the newest ones if more were written."""

ForwardChoice = Literal["auto", "inline", "background", "manual"]
SourceChoice = Literal["auto", "files"]
ForeignCheck = Literal["manifest", "listing"]
BrokenChoice = Literal["raise", "skip"]
UnknownFieldChoice = Literal["warn", "raise", "ignore"]

_CHOICES = {
    "forward": ForwardChoice,
    "source": SourceChoice,
    "foreign_check": ForeignCheck,
    "on_broken": BrokenChoice,
    "unknown_fields": UnknownFieldChoice,
}

DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a database behaves in this process; every value has a default that is safe."""

    staleness_ms: float = 0
    """How long a reader may skip asking the store for newer entries, unless a call gives `stale_ms` or `at_least`; 0
    asks at every read."""
    read_seconds: float = READ_SECONDS
    """How long a read may take. A query has this time for each batch of rows; work on a whole collection, such as
    `forward` or `verify`, is given up if the store has not answered for this long."""
    commit_seconds: float = COMMIT_SECONDS
    """How long a write tries before it gives up."""
    transaction_seconds: float = TRANSACTION_SECONDS
    """How long a transaction may be open before it commits."""
    transaction_bytes: int = TRANSACTION_BYTES
    """Bytes that a transaction may write, documents as they were and as they will be counted."""
    request_seconds: float = REQUEST_SECONDS
    """How long one request to a cloud store may go without a byte of its answer; then it is tried again if that is
    safe."""
    modify_attempts: int = 100
    """How often `modify` and changes by filter start again when another writer was faster."""
    pool_threads: int = POOL_THREADS
    """Requests in flight at once."""
    cache_bytes: int = 256 * MIB
    """Bound of the caches in memory: of immutable objects, and of columns and rows that stay decoded; 0 switches both
    off."""
    cache_folder: str | None = None
    """A folder of this machine in which immutable objects of a cloud store stay when a process ends, so that the next
    one need not ask for them; processes may share it. None takes the environment variable WORM_CACHE; empty is none."""
    cache_folder_bytes: int = 1024 * MIB
    """Bound of that folder; what was not used for the longest time is removed."""
    forward: ForwardChoice = "auto"
    """What brings the log forward: `inline` the caller of a commit, `background` a thread, `manual` only calls of
    `forward()`. `auto` is background for a cloud store and inline for a folder or memory."""
    forward_entries: int = TAIL_ENTRIES_MAX // 10
    """Log entries after which the tail is brought forward."""
    forward_interval_ms: float = FORWARD_INTERVAL_MS
    """A process swaps a collection's root once in this time, but for a few swaps after a rest."""
    files_interval_ms: float = FILES_INTERVAL_MS
    """With readable files, a commit brings the log forward if one before it has waited this long."""
    files_seconds: float = FILES_SECONDS
    """A manifest or index file in which only a little has changed is written again after this time."""
    block_bytes: int = BLOCK_BYTES_TARGET
    """Bytes of documents at which a block is closed, before compression."""
    stage_bytes: int = STAGE_BYTES
    """Bytes of a batch from which on it is staged as blocks and attached, instead of going through the log."""
    tail_entries_max: int = TAIL_ENTRIES_MAX
    """Log entries that are not brought forward at which commits wait."""
    tail_bytes_max: int = TAIL_BYTES_MAX
    """Bytes of such entries at which commits wait."""
    log_retention_ms: int = 7 * DAY_MS
    """How long log entries stay after they were brought forward; never under an hour."""
    job_expiry_ms: int = 7 * DAY_MS
    """How long a bulk job may be open until garbage collection gives it up; never under an hour."""
    source: SourceChoice = "auto"
    """What a model in mode readonly is read from: `auto` asks once whether the collection has a log, and reads files of
    other programs if it has none; `files` reads the files without asking."""
    foreign_check: ForeignCheck = "manifest"
    """When a manifest or index of another program is believed: `manifest` if it is right in itself, `listing` if also
    no file of a document is newer and the ids are those that are there, for which the files are listed."""
    on_broken: BrokenChoice = "raise"
    """What happens to a broken file of another program's document: `raise` CorruptionError, or `skip` it and name it in
    a warning."""
    unknown_fields: UnknownFieldChoice = "warn"
    """What happens where a filter, a sort or a selection names a field that the model does not declare, and that is
    nearly one that it does: `warn` by UnknownFieldWarning, `raise` InvalidRequestError, or `ignore` it."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in _CHOICES or field.name == "cache_folder":
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
                raise InvalidRequestError(f"setting {field.name}={value!r}", reason="it must be a number, 0 or more")
        if not isinstance(self.cache_folder, str | None):
            raise InvalidRequestError(f"setting cache_folder={self.cache_folder!r}", reason="it must be a string")
        for name, choice in _CHOICES.items():
            value = getattr(self, name)
            if value not in get_args(choice):
                raise InvalidRequestError(
                    f"setting {name}={value!r}", reason=f"it is one of {', '.join(get_args(choice))}"
                )
        if self.log_retention_ms < LOG_RETENTION_MS_MIN:
            raise InvalidRequestError(
                f"setting log_retention_ms={self.log_retention_ms}",
                reason=f"entries must stay at least {LOG_RETENTION_MS_MIN} ms: a slow writer may still need them",
            )
        if self.job_expiry_ms < JOB_EXPIRY_MS_MIN:
            raise InvalidRequestError(
                f"setting job_expiry_ms={self.job_expiry_ms}",
                reason=f"jobs must have at least {JOB_EXPIRY_MS_MIN} ms: what they wrote is removed after it",
            )
        if min(self.pool_threads, self.tail_entries_max, self.forward_entries, self.block_bytes) < 1:
            raise InvalidRequestError(
                "settings", reason="pool_threads, block_bytes and the entry counts must be at least 1"
            )
