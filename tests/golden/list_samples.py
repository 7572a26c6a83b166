"""Lists for the golden files."""

from __future__ import annotations

from msgspec import structs

from tests.golden.samples import COLLECTION, digest, root, write_id
from wormdb.format.entry import Entry
from wormdb.format.event import ListsCreated
from wormdb.format.list_columns import ColumnPages, steps_of
from wormdb.format.list_part import PartDraft, encode_ids, encode_list, payload_columns
from wormdb.format.list_run import Calibration, ListGeneration, ListHead, ListPart, ListRun, TrainedRef
from wormdb.format.root import IndexRoot, Root

__all__ = [
    "LIST_IDENTITY",
    "column_lists",
    "column_part",
    "list_entry",
    "list_part",
    "list_root",
    "loose_list",
    "renewed_root",
    "stored_lists",
]

LIST_IDENTITY = f"{COLLECTION}/0007-00000001.run"


def stored_lists() -> list[tuple[bytes, bytes]]:
    """Lists by places with columns: some small ones, and one with deletions."""
    places = [0, 1, 5, 300, 70_000]
    payloads = [bytes((place % 5 + 1, place % 7, 0)) for place in places]
    return [
        (b"blue", encode_list(places[:2], payloads[:2], [], (1, 2), is_shared=True)),
        (b"green", encode_list([], [], [4, 9], (1, 2), is_shared=True)),
        (b"red", encode_list(places, payloads, [2, 300], (1, 2), is_shared=True)),
    ]


def loose_list() -> bytes:
    """A list by ids, with payloads of any length."""
    return encode_list([b'"a"', b'"b17"', b"7"], [b"", b"x", b"yz"], [b'"c"'], None, is_shared=False)


def list_part(*, is_packed: bool) -> bytes:
    """An object of lists, and a page of ids behind them."""
    draft = PartDraft(is_packed=is_packed, is_alone=True)
    for key, body in stored_lists():
        draft.add(key, body)
    draft.add(b"zz", loose_list())
    draft.add(b"zzz", encode_ids([b'"a"', b'"b"', b'"d"'], [False, True, False]))
    return draft.finish("0007-00000001.run", identity=LIST_IDENTITY)[0]


def column_lists() -> list[tuple[bytes, list[int], list[bytes], list[int]]]:
    """Lists by places in columns, each with its payloads and deletions: short ones, and one that is packed."""
    many = [*range(3, 600, 7), 70_000, 20_000_000]
    return [
        (b"blue", [0, 1], [b"\1\2\0", b"\3\4\0"], []),
        (b"green", [], [], [4, 9]),
        (b"red", many, [bytes((place % 5 + 1, place % 7, 0)) for place in many], [2, 300]),
    ]


def column_part() -> bytes:
    """An object of lists in columns."""
    draft = PartDraft(is_packed=True, form="columns", widths=(1, 2))
    pages = ColumnPages(draft, (1, 2))
    for key, places, payloads, gone in column_lists():
        pages.add(key, steps_of(places), [*payload_columns(payloads, (1, 2))], steps_of(gone))
        if key == b"green":
            pages.close()
    pages.close()
    return draft.finish("0007-00000001.run", identity=LIST_IDENTITY)[0]


def list_root() -> Root:
    """A root with an index of lists."""
    part = ListPart(name="0007-00000001.run", sha256=digest(9), length=900, directory=700, first=b"blue")
    run = ListRun(number=6, parts=(part,), ids=(part,), documents=3, entries=7, gone=4, tally=(3, -1))
    trained = TrainedRef(name="0007-00000002.trained", sha256=digest(8), length=80, documents=1_000)
    head = ListHead(runs=(run, ListRun(number=2, parts=(part,), entries=20)), trained=trained, is_trained=True)
    index = IndexRoot(name="byText", definition=b"{}", state="ready", applied=7, entries=23, lists=head)
    return structs.replace(root(), indexes=(index,))


def renewed_root() -> Root:
    """A root with an index of vectors that was measured, and is made anew."""
    part = ListPart(name="0007-00000003.run", sha256=digest(7), length=800, directory=600, first=b"\0\0")
    trained = TrainedRef(name="0007-00000004.trained", sha256=digest(6), length=60, documents=2_000)
    found = Calibration(
        changes=900,
        entries=23,
        lists=8,
        longest=6,
        points=((1, 4_610, 1_282), (2, 7_330, 2_541), (8, 10_000, 10_000)),
        first=3_950,
        learned=700,
        learned_from=20,
    )
    (index,) = list_root().indexes
    assert index.lists is not None
    begun = ListHead(
        runs=(ListRun(number=6, parts=(part,), entries=11, tally=(11,)),), trained=trained, is_trained=True
    )
    measured = structs.replace(index.lists, calibration=found)
    made = structs.replace(index, lists=measured, successor=ListGeneration(head=begun, cursor=b"\x20k"))
    return structs.replace(list_root(), indexes=(made,))


def list_entry() -> Entry:
    """An entry that creates an index of lists."""
    created = ListsCreated(name="byText", definition=b'{"fields":["body"],"kind":"text","options":{}}', empty=True)
    return Entry(number=12, write_id=write_id(12), misc=9, node=0, previous=bytes(32), events=(created,))
