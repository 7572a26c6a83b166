"""Values as relaxed extended JSON, version 2: bytes in and out, exactly.

Plain documents take msgspec's fast path both ways, and no line of Python looks at their values:

- msgspec writes dates, bytes and numbers that are not finite in forms of its own. So it first checks
  that the value has JSON's own types only; otherwise the forms of `wormdb.format.wrappers` are
  put in.
- Reading into the same type refuses integers over 64 bits and nests that are too deep, and every
  extended form has a key that starts with `$`, which is searched for in the bytes.

Where a key occurs twice in one object, the last one wins, as JSON readers do.
"""

from __future__ import annotations

import re
from datetime import datetime
from math import isfinite
from sys import float_info
from types import GenericAlias
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from wormdb.errors import CorruptionError, InvalidRequestError, LimitExceededError
from wormdb.format.wrappers import READERS, WRITERS, MalformedError, TooDeepError, write_double
from wormdb.settings import DOCUMENT_BYTES_MAX, DOCUMENT_DEPTH_MAX, INT_MAX, INT_MIN

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from wormdb.format.kinds import Document

__all__ = [
    "decode",
    "decode_document",
    "decode_documents",
    "decode_fields",
    "encode",
    "encode_all",
    "encode_document",
    "encode_plain",
    "parse",
]


def _plain_type(levels: int) -> Any:
    """The values that JSON has itself, down to some levels, as a type for msgspec to check."""
    integer = Annotated[int, msgspec.Meta(ge=INT_MIN, le=INT_MAX)]
    finite = Annotated[float, msgspec.Meta(ge=-float_info.max, le=float_info.max)]
    scalar: Any = None | bool | str | integer | finite
    plain = scalar
    for _ in range(levels):
        plain = scalar | GenericAlias(list, (plain,)) | GenericAlias(dict, (str, plain))
    return plain


# The type doubles in size with every level; few documents are deeper, and those take the slow path.
_Plain: Final = _plain_type(5)
# msgspec keeps what it works out about a Struct, so the type is wrapped in one to be checked against.
_Box: Final = msgspec.defstruct("_Box", [("value", _Plain)], array_like=True)
# It works that out at the first use, and a second thread that comes meanwhile takes what is half done and crashes.
# Here there is no second thread yet.
msgspec.convert((None,), _Box)


# --- writing ---


def encode(value: Any) -> bytes:
    """A normalized value as compact UTF-8 JSON.

    Raises InvalidRequestError for a type that no value has, LimitExceededError for a nest without
    end. No requests.
    """
    try:
        if type(value) is str:
            return _encoder.encode(value)
        if (type(value) is dict and not _JSON_TYPES.issuperset(map(type, value.values()))) or not _is_plain(value):
            value = _wrapped(value)
        return _encoder.encode(value)
    except RecursionError as error:
        raise _too_deep() from error


def encode_all(values: Sequence[Any]) -> list[bytes]:
    """`encode` of each of some values: faster than one by one where all are plain text. No requests."""
    if set(map(type, values)) == {str}:
        joined = "\n".join(values)
        if len(values) == joined.count("\n") + 1 and _PLAIN_TEXT.fullmatch(joined):
            return f'"{joined}"'.replace("\n", '"\n"').encode().split(b"\n")
    return list(map(encode, values))


def encode_document(document: Document) -> bytes:
    """`encode` for a whole document; LimitExceededError also over DOCUMENT_BYTES_MAX. No requests."""
    assert type(document) is dict
    data = encode(document)
    if len(data) > DOCUMENT_BYTES_MAX:
        raise LimitExceededError(
            f"the document takes {len(data)} bytes as JSON",
            reason=f"DOCUMENT_BYTES_MAX is {DOCUMENT_BYTES_MAX}",
            fix="split it",
        )
    return data


_PLAIN_TEXT: Final = re.compile(r"[\n -!#-\[\]-~]*")
"""ASCII without signs that JSON escapes, in lines."""


def encode_plain(value: Any) -> bytes:
    """`encode` for a value that has JSON's own types only, finite numbers of 64 bits, and no endless nest.

    Raises UnicodeEncodeError for text that is none. No requests.
    """
    return _encoder.encode(value)


def _write_other(value: Any) -> dict[str, Any]:
    write = WRITERS.get(type(value))
    if write is None:
        raise InvalidRequestError(
            f"{type(value).__name__} is not a normalized value", fix="pass it through normalize()"
        )
    return write(value)


_encoder: Final = msgspec.json.Encoder(enc_hook=_write_other)


def _is_plain(value: Any) -> bool:
    try:
        msgspec.convert((value,), _Box)
    except msgspec.ValidationError:
        return False
    return True


def _wrapped(value: Any) -> Any:
    """`value` with extended forms where msgspec would write its own; `value` itself if there are none."""
    wrap = _WRAP.get(type(value))
    return value if wrap is None else wrap(value)


def _wrapped_dict(document: Document) -> Document:
    result = document
    for name, value in document.items():
        kind = type(value)
        if kind in _AS_IS or (kind is float and isfinite(value)) or (wrap := _WRAP.get(kind)) is None:
            continue
        if (wrapped := wrap(value)) is not value:
            if result is document:
                result = document.copy()
            result[name] = wrapped
    return result


def _wrapped_list(values: list[Any]) -> list[Any]:
    if _AS_IS.issuperset(map(type, values)):
        return values
    result = values
    for position, value in enumerate(values):
        if (wrap := _WRAP.get(type(value))) is not None and (wrapped := wrap(value)) is not value:
            if result is values:
                result = values.copy()
            result[position] = wrapped
    return result


_AS_IS: Final = frozenset({str, int, bool, type(None)})
_JSON_TYPES: Final = _AS_IS | {float, dict, list}
_WRAP: Final[dict[type, Callable[[Any], Any]]] = {
    dict: _wrapped_dict,
    list: _wrapped_list,
    float: lambda value: value if isfinite(value) else write_double(value),
    datetime: WRITERS[datetime],
    bytes: WRITERS[bytes],
}


# --- reading ---


def decode(data: bytes | memoryview, *, name: str) -> Any:
    """The value that `data` holds; CorruptionError naming the object `name` if it holds none.

    Takes canonical extended JSON too. No requests.
    """
    plain = _read_plain(data)
    return _read_forms(data, name) if plain is _NOT_PLAIN else plain


def _read_forms(data: bytes | memoryview, name: str) -> Any:
    try:
        return _read(bytes(data), _no_operator)
    except (msgspec.MsgspecError, MalformedError, UnicodeError, RecursionError) as error:
        raise CorruptionError(f"{name} holds no valid JSON", reason=_reason(error, bytes(data)), key=name) from error


def decode_document(data: bytes | memoryview, *, name: str) -> Document:
    """`decode` for a whole document; CorruptionError also if it is not an object. No requests."""
    if type(data) is bytes and b'"$' not in data and b"\\u0024" not in data:
        # As `_read_plain`, without a call: most documents come this way, one by one.
        try:
            document = _plain_decoder.decode(data)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):  # told by what follows, with its reason
            document = None
        if type(document) is dict:
            return document
    document = _read_forms(data, name)
    if type(document) is not dict:
        raise CorruptionError(f"{name} holds no document", reason="its JSON is not an object", key=name)
    return document


def decode_documents(texts: Iterable[bytes], *, name: str) -> list[Document]:
    """`decode_document` for many. No requests."""
    read, found = _plain_decoder.decode, []
    for text in texts:
        # As `_read_plain`, without a call for each.
        document: Any = None
        if b'"$' not in text and b"\\u0024" not in text:
            try:
                document = read(text)
            except (msgspec.MsgspecError, UnicodeError, RecursionError):  # told by what follows, with its reason
                document = None
        found.append(document if type(document) is dict else decode_document(text, name=name))
    return found


def decode_fields(text: bytes, names: Collection[str], *, name: str) -> Document:
    """What a document has under some names of its own, as `decode_document` reads it: the rest is passed over.

    No requests; raises CorruptionError.
    """
    try:
        raw = _fields_decoder.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):  # told by what follows, with its reason
        return decode_document(text, name=name)
    return {field: decode(bytes(raw[field]), name=name) for field in names if field in raw}


def parse(text: str, *, operators: bool = False) -> Any:
    """The value of JSON that a person typed; `operators` lets keys such as `$gt` through.

    Raises InvalidRequestError with line and column, LimitExceededError. No requests.
    """
    try:
        return _read(text.encode(), _is_operator if operators else _no_operator)
    except (TooDeepError, RecursionError) as error:
        raise _too_deep() from error
    except (msgspec.MsgspecError, MalformedError, UnicodeError) as error:
        place = _position(text, str(error)) if isinstance(error, msgspec.MsgspecError) else ""
        raise InvalidRequestError(
            f"this is not valid JSON{place}",
            reason=_reason(error, text.encode(errors="replace")),
            fix='see "Values" in the docs for the forms',
        ) from error


_decoder: Final = msgspec.json.Decoder()
_plain_decoder: Final = msgspec.json.Decoder(_Plain)
_fields_decoder: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_BYTE: Final = re.compile(r" \(byte ([0-9]+)\)")


_NOT_PLAIN: Final = object()


def _read_plain(data: bytes | memoryview) -> Any:
    """The value of JSON that has nothing but JSON's own types, nearly all of it; _NOT_PLAIN for anything else."""
    if type(data) is bytes and b'"$' not in data and b"\\u0024" not in data:
        try:
            return _plain_decoder.decode(data)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            pass
    return _NOT_PLAIN


def _no_operator(_: str) -> bool:
    return False


def _is_operator(name: str) -> bool:
    return name not in READERS


def _read(data: bytes, passes: Callable[[str], bool]) -> Any:
    """Decode; `passes` says which keys that start with `$` are ordinary ones."""
    try:
        value, checked = _plain_decoder.decode(data), True
    except msgspec.ValidationError:
        value, checked = _decoder.decode(data), False
    escaped = b"\\" in data and b"\\u0024" in data
    marks = data.count(b'"$') if b"$" in data else 0
    if checked and not escaped and not marks:
        return value
    reader = _FormReader()
    value = reader.forms_in(value) if checked else reader.value(value, 1)
    # Each form read stands for one mark at least: with none left over, no other key starts with $.
    if escaped or reader.forms < marks:
        _check_names(value, passes)
    return value


class _FormReader:
    """Reads the extended forms in freshly decoded JSON, in place, and checks its limits."""

    __slots__ = ("forms",)

    def __init__(self) -> None:
        self.forms = 0

    def forms_in(self, value: Any) -> Any:
        """`value` with its forms read, where its limits are checked already."""
        kind = type(value)
        if kind is dict:
            if len(value) == 1:
                (name,) = value
                if (read := READERS.get(name)) is not None:
                    return self._form(read, name, value[name])
            if not _SCALARS.issuperset(map(type, value.values())):
                for name, item in value.items():
                    if type(item) not in _SCALARS:
                        value[name] = self.forms_in(item)
        elif kind is list and not _SCALARS.issuperset(map(type, value)):
            value[:] = [item if type(item) in _SCALARS else self.forms_in(item) for item in value]
        return value

    def value(self, value: Any, level: int) -> Any:
        """`value` with its forms read; `level` is its own level if it is a container."""
        kind = type(value)
        if kind is dict:
            if len(value) == 1:
                (name,) = value
                if (read := READERS.get(name)) is not None:
                    return self._form(read, name, value[name])
            self._items(value, value.items(), level)
        elif kind is list:
            self._items(value, enumerate(value), level)
        elif kind is int and not INT_MIN <= value <= INT_MAX:
            raise MalformedError("an integer does not fit in 64 bits")
        return value

    def _items(self, container: Any, items: Iterable[tuple[Any, Any]], level: int) -> None:
        if level > DOCUMENT_DEPTH_MAX:
            raise TooDeepError
        for place, item in items:
            if type(item) not in _UNCHANGED:
                container[place] = self.value(item, level + 1)

    def _form(self, read: Callable[[Any], Any], name: str, payload: Any) -> Any:
        self.forms += 2 if type(payload) is dict and "$numberLong" in payload else 1
        try:
            return read(payload)
        except MalformedError as error:
            raise MalformedError(f"{name}: {error}") from error


_UNCHANGED: Final = frozenset({str, float, bool, type(None)})
_SCALARS: Final = _UNCHANGED | {int}


def _check_names(value: Any, passes: Callable[[str], bool]) -> None:
    containers: list[Iterable[Any]] = [(value,)]
    for values in containers:
        for item in values:
            if type(item) is dict:
                for name in item:
                    if name.startswith("$") and not passes(name):
                        raise MalformedError(f"{name[:40]} is not a form of extended JSON here")
                containers.append(item.values())
            elif type(item) is list:
                containers.append(item)


def _too_deep() -> LimitExceededError:
    return LimitExceededError(
        "the value is nested too deep", reason=f"DOCUMENT_DEPTH_MAX is {DOCUMENT_DEPTH_MAX} levels", fix="flatten it"
    )


def _reason(error: Exception, data: bytes) -> str:
    if isinstance(error, TooDeepError | RecursionError):
        return f"it is nested deeper than DOCUMENT_DEPTH_MAX, {DOCUMENT_DEPTH_MAX} levels"
    if isinstance(error, UnicodeError):
        return "it is not UTF-8"
    told = _BYTE.sub("", str(error))
    if told == "Input data was truncated":
        return "it ends too early" if data.strip() else "it is empty"
    return "a number is out of range" if told.startswith("Number out of range") else told


def _position(text: str, message: str) -> str:
    found = _BYTE.search(message)
    data = text.encode()
    before = data[: int(found[1])].decode(errors="replace") if found else text
    column = len(before) - before.rfind("\n")
    return f" at line {before.count(chr(10)) + 1}, column {column}"
