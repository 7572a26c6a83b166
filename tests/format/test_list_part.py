"""Lists as bytes: what was written is read, each entry by itself, and no changed byte is believed."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.golden.list_samples import LIST_IDENTITY, column_part, list_part
from wormdb.errors import CorruptionError
from wormdb.format.list_columns import ColumnPage, ColumnPages, names_in, steps_of
from wormdb.format.list_part import (
    Directory,
    PartDraft,
    StoredList,
    decode_directory,
    decode_ids,
    decode_list,
    encode_ids,
    encode_list,
    lists_in,
    payload_columns,
)

ids = st.lists(st.binary(max_size=6), max_size=12)
widths = st.one_of(st.none(), st.lists(st.integers(0, 3), max_size=3).map(tuple))


@given(names=ids, gone=ids, shape=widths, data=st.data())
def test_a_list_of_ids_is_read_as_it_was_written(
    names: list[bytes], gone: list[bytes], shape: tuple[int, ...] | None, data: st.DataObject
) -> None:
    size = None if shape is None else sum(shape)
    payload = st.binary(max_size=9) if size is None else st.binary(min_size=size, max_size=size)
    payloads = data.draw(st.lists(payload, min_size=len(names), max_size=len(names)))
    body = encode_list(names, payloads, gone, shape, is_shared=False)
    found = decode_list(memoryview(body), shape, is_shared=False, name="x")
    assert (found.count, list(found.ids), list(found.gone)) == (len(names), names, gone)
    assert found.all_payloads() == payloads
    assert [found.payload(place) for place in range(found.count)] == payloads
    assert [found.ids[place] for place in range(found.count)] == names


@given(
    places=st.sets(st.integers(0, 2**32 - 1), max_size=12).map(sorted),
    gone=st.sets(st.integers(0, 500), max_size=9).map(sorted),
)
def test_a_list_of_places_is_read_as_it_was_written(places: list[int], gone: list[int]) -> None:
    body = encode_list(places, [b"ab"] * len(places), gone, (1, 1), is_shared=True)
    found = decode_list(memoryview(body), (1, 1), is_shared=True, name="x")
    assert (list(found.places), list(found.gone_places)) == (places, gone)
    assert [bytes(column) for column in found.columns] == [b"a" * len(places), b"b" * len(places)]


@given(body=st.binary(max_size=40), shape=widths, is_shared=st.booleans())
def test_no_bytes_make_a_list_raise_anything_but_damage(
    body: bytes, shape: tuple[int, ...] | None, is_shared: bool
) -> None:
    try:
        found = decode_list(memoryview(body), shape, is_shared=is_shared, name="x")
    except CorruptionError:
        return
    assert len(found.all_payloads()) == found.count


@given(found=st.lists(st.tuples(st.binary(max_size=5), st.booleans()), max_size=20))
def test_a_page_of_ids_is_read_as_it_was_written(found: list[tuple[bytes, bool]]) -> None:
    names, dead = [name for name, _ in found], [is_dead for _, is_dead in found]
    page = decode_ids(memoryview(encode_ids(names, dead)), name="x")
    assert (list(page.ids), list(page.dead)) == (names, dead)


def read(data: bytes, begin: int) -> list[tuple[bytes, bytes]]:
    """All lists of an object whose directory begins at a place."""
    directory = decode_directory(data[begin:], name="x", identity=LIST_IDENTITY, directory=begin)
    found = []
    for page in range(len(directory.firsts)):
        body = directory.unpack(page, data[directory.starts[page] : directory.starts[page + 1]])
        found += [(key, bytes(one)) for key, one in lists_in(body, name="x")]
    return found


@pytest.mark.parametrize("is_packed", [False, True])
def test_every_flipped_byte_of_an_object_is_damage(is_packed: bool) -> None:
    data = list_part(is_packed=is_packed)
    begin = data.rindex(b"WORM")
    assert len(read(data, begin)) == 5
    for place in range(len(data)):
        flipped = bytearray(data)
        flipped[place] ^= 1
        with pytest.raises(CorruptionError):
            read(bytes(flipped), begin)


def directory_of(keys: list[bytes], size: int) -> tuple[bytes, Directory]:
    draft = PartDraft(is_packed=False)
    for key in keys:
        draft.add(key, bytes(size))
    body, part = draft.finish("n", identity="n")
    assert part.first == keys[0]
    return body, decode_directory(body[part.directory :], name="x", identity="n", directory=part.directory)


@pytest.mark.parametrize("size", [0, 3_000, 20_000])
def test_a_key_and_a_prefix_are_found_in_the_pages_that_have_them(size: int) -> None:
    keys = [b"%03d" % number for number in range(0, 60, 2)]
    body, directory = directory_of(keys, size)
    pages = [
        dict(lists_in(directory.unpack(page, body[directory.starts[page] : directory.starts[page + 1]]), name="x"))
        for page in range(len(directory.firsts))
    ]
    assert len(pages) == {0: 1, 3_000: 15, 20_000: 30}[size]
    for number in range(60):
        key = b"%03d" % number
        page = directory.page_of(key)
        assert (page is not None and key in pages[page]) == (key in keys)
    assert directory.page_of(b"") is None
    for low, high in ((b"01", b"02"), (b"", None), (b"059", b"06"), (b"9", None), (b"004", b"006")):
        found = {key for page in directory.pages_between(low, high) for key in pages[page]}
        assert {key for key in keys if key >= low and (high is None or key < high)} <= found


shapes = st.lists(st.integers(1, 3), max_size=3).map(tuple)
places = st.sets(st.integers(0, 2**32 - 1), max_size=9).map(sorted)


@given(
    found=st.dictionaries(st.binary(max_size=5), st.tuples(places, places).filter(any), max_size=9),
    widths=shapes,
    close=st.integers(0, 9),
)
def test_lists_in_columns_are_read_as_they_were_written(
    found: dict[bytes, tuple[list[int], list[int]]], widths: tuple[int, ...], close: int
) -> None:
    draft = PartDraft(is_packed=True, form="columns", widths=widths)
    pages = ColumnPages(draft, widths)
    payload = bytes(range(sum(widths)))
    for number, key in enumerate(sorted(found)):
        own, gone = found[key]
        pages.add(key, steps_of(own), [*payload_columns([payload] * len(own), widths)], steps_of(gone))
        if number == close:
            pages.close()
    pages.close()
    data, part = draft.finish("n", identity="n")
    directory = decode_directory(data[part.directory :], name="x", identity="n", directory=part.directory)
    read: dict[bytes, StoredList] = {}
    for number, (start, stop) in enumerate(pairwise(directory.starts)):
        page = ColumnPage(directory.unpack(number, data[start:stop]), widths, name="x")
        read |= dict(page.lists())
        assert all((page.find(key) is not None) == (key in page.keys) for key in (*found, b"other"))
    assert {key: (list(one.places), list(one.gone_places)) for key, one in read.items()} == found
    assert all(one.all_payloads() == [payload] * one.count for one in read.values())
    assert [key for key, _ in names_in(data, name="x")] == sorted(found)


@given(body=st.binary(max_size=60), widths=shapes)
def test_no_bytes_make_columns_raise_anything_but_damage(body: bytes, widths: tuple[int, ...]) -> None:
    try:
        found = list(ColumnPage(body, widths, name="x").lists())
    except CorruptionError:
        return
    assert all(len(one.all_payloads()) == len(one.places) for _, one in found)


def test_every_flipped_byte_of_columns_is_damage() -> None:
    data = column_part()
    begin = data.rindex(b"WORM")

    def read_all(body: bytes) -> None:
        directory = decode_directory(body[begin:], name="x", identity=LIST_IDENTITY, directory=begin)
        for number, (start, stop) in enumerate(pairwise(directory.starts)):
            list(ColumnPage(directory.unpack(number, body[start:stop]), (1, 2), name="x").lists())

    read_all(data)
    for place in range(len(data)):
        flipped = bytearray(data)
        flipped[place] ^= 1
        with pytest.raises(CorruptionError):
            read_all(bytes(flipped))
