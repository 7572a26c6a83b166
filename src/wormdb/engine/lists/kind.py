"""What a list index needs to know of its kind: which lists a document is in, and what each says of it.

A list index is a map from list keys to lists of documents. Everything about it is generic (runs, forwarding, builds,
checks, repair) but for a kind, which is pure: the same document and the same trained object give the same lists on
every machine. So a change can take a document out of the lists in which its version before was, without a look at them.

What a kind may rely on:

- The engine calls `lister` once for a trained object and then with slices of documents; what is made of the trained
  object (a matrix, say) lives in the callable that it returns. Slices may be cut anywhere.
- Documents are normalized values, as `wormdb.format.json.decode_document` gives them, with their id under `_id`.
- `check` was asked for every document of a collection that was written while the index was ready. A build asks it for
  all others, and fails the index with what it raises.
- List keys are bytes in order, at most LIST_KEY_BYTES_MAX; a prefix is a range of them.

How entries are stored follows from three facts. `columns` are the widths of the parts of a payload: entries of one list
are then stored column by column, so that a column of n entries is one buffer of n times width bytes, which numpy can
view without a copy. `is_shared` says that a document is in many lists: its id is then stored once a run, and lists have
numbers of four bytes and less; a change brings all of its entries anew, so that all that count are in one run.
`is_packed` says that compression pays.

Statistics need no hook for merging: a tally is a tuple of integers, and the tally of an index is the sum over its
documents. In how many documents a term is, is the length of its list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from wormdb.errors import UnsupportedFormatError

if TYPE_CHECKING:
    from wormdb.format.kinds import Document

__all__ = [
    "KINDS",
    "LIST_KEY_BYTES_MAX",
    "PAYLOAD_BYTES_MAX",
    "CountingKind",
    "DocumentCounter",
    "ListKind",
    "Lister",
    "kind_of",
]

LIST_KEY_BYTES_MAX: Final = 1_024
PAYLOAD_BYTES_MAX: Final = 64 * 1_024
"""Of what one list says of one document."""

Lister = Callable[[Sequence["Document"]], Sequence[Mapping[bytes, bytes]]]
"""For each document of a slice its lists by key, each with the payload that the list has of it."""


class ListKind(Protocol):
    """One kind of list index with its options. Pure; equal options make equal kinds."""

    @property
    def name(self) -> str:
        """As definitions store it: "vector", "text"."""
        ...

    @property
    def options(self) -> Mapping[str, Any]:
        """What the definition of the index holds of it: a JSON object, from which `kind_of` makes it again."""
        ...

    @property
    def fields(self) -> tuple[str, ...]:
        """All paths that decide the lists of a document, one at least: a mapping that touches one builds it anew."""
        ...

    @property
    def columns(self) -> tuple[int, ...] | None:
        """The widths in bytes of the parts of every payload; None if payloads have any length. () is no payload."""
        ...

    @property
    def is_shared(self) -> bool:
        """Whether a document is in many lists, so that its id is stored once a run."""
        ...

    @property
    def is_packed(self) -> bool:
        """Whether stored lists are compressed."""
        ...

    def check(self, document: Document) -> None:
        """Raise InvalidRequestError, naming document and path, for what cannot be indexed. No requests."""
        ...

    def lister(self, trained: bytes | None) -> Lister:
        """What puts documents into lists. `trained` is what `train` made; None if there was nothing to learn from.

        A document may be in no list. Payloads have the length of all `columns` together, or PAYLOAD_BYTES_MAX at most.
        """
        ...

    def tally(self, document: Document) -> tuple[int, ...]:
        """What a document adds to the statistics of the index, always as many integers from 0 on; () for none.

        Text: (1, length of field 1, length of field 2, …). Vectors: (1,) for one that has a vector, else (0,).
        """
        ...

    def sample_size(self, documents: int) -> int:
        """How many documents `train` wants to see where there are this many; 0 if it learns nothing."""
        ...

    def train(self, sample: Sequence[Document], documents: int) -> bytes | None:
        """What `lister` needs, of a fair sample in order of id; None if these tell nothing. The same bytes everywhere.

        `documents` is how many there are in all.
        """
        ...


class DocumentCounter(Protocol):
    """Cuts documents into numbers, each of which stands for a list. Used by one thread."""

    @property
    def width(self) -> int:
        """In how many parts documents are cut."""
        ...

    @property
    def keys(self) -> Sequence[bytes]:
        """By number the keys of lists; it grows."""
        ...

    def cut(self, document: Document) -> list[list[int]]:
        """For each part of a document the numbers of lists, each as often as it is there. No requests."""
        ...


@runtime_checkable
class CountingKind(Protocol):
    """A kind whose payloads are, for each part of a document, how often it has the list, then levels of their lengths.

    So entries can be made as arrays. What they are is what `ListKind.lister` and `ListKind.tally` say of a document.
    """

    def counter(self) -> DocumentCounter:
        """What cuts documents, with numbers of its own. Raises MissingExtraError."""
        ...


def _make_vectors(options: Mapping[str, Any]) -> ListKind:
    from wormdb.engine.lists.vector_kind import make_vector_kind

    return make_vector_kind(options)


def _make_texts(options: Mapping[str, Any]) -> ListKind:
    from wormdb.engine.lists.text_kind import make_text_kind

    return make_text_kind(options)


KINDS: Final[dict[str, Callable[[Mapping[str, Any]], ListKind]]] = {"text": _make_texts, "vector": _make_vectors}
"""By name what makes a kind of its options; it raises InvalidRequestError for options that cannot be.

An entry is a function that imports its module when it is called: most processes have no list index.
"""


def kind_of(name: str, options: Mapping[str, Any], *, index: str) -> ListKind:
    """The kind of an index. Raises InvalidRequestError, and UnsupportedFormatError for a kind of later releases."""
    make = KINDS.get(name)
    if make is None:
        raise UnsupportedFormatError(
            f"index {index} cannot be used", reason=f"this version has no lists of kind {name!r}", fix="upgrade wormdb"
        )
    return make(options)
