"""The index methods of `Collection`.

The first call imports what carries it out: programs that only read and write do not wait for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from wormdb.api.calls import commits, reads, works

if TYPE_CHECKING:
    from collections.abc import Sequence

    from wormdb.api.access import Access
    from wormdb.api.indexes import Indexes, WrittenFields
    from wormdb.api.status import IndexDescription, IndexSummary
    from wormdb.bql.nearest import Distance

__all__ = ["IndexMethods"]

T = TypeVar("T")


class IndexMethods(Generic[T]):
    """Indexes: made, shown, measured, built and dropped."""

    _access: Access[T]

    def forward(self, *, timeout: float | None = None) -> int:
        """As `Collection.forward`."""
        raise NotImplementedError

    @property
    def _indexes(self) -> Indexes[T]:
        from wormdb.api.indexes import Indexes

        return Indexes(self._access)

    @works
    def create_index(  # noqa: PLR0913 - one keyword for each choice
        self,
        fields: WrittenFields,
        *,
        name: str | None = None,
        unique: bool = False,
        sparse: bool = True,
        bson_type: str | Sequence[str] | None = None,
        expireAfterSeconds: float | None = None,
        wait: bool = True,
    ) -> IndexSummary:
        """Make an index over a dotted field, or over several in order; arrays are entered by their elements.

        Fields may be pairs with 1 or -1: an index is read both ways. If the same index is there, nothing is written.
        `name` is made of the fields if none is given. A `sparse` index leaves documents out that have none of the
        fields; for a unique one they are exempt. `bson_type`, such as "string" or "number" and one for each field, is
        what values must be to be written at all, null and missing apart, by MongoDB's or Kronotop's names.
        `expireAfterSeconds` says too that documents end so long after the date in the field, as `expire` does, and 1
        PUT more; of a collection that has another rule it raises InvalidRequestError. Without
        `wait` the next forwarding builds it. Writers go on meanwhile. 1 PUT for the entry, after a scan if it is
        unique; building it is 1 GET a block, 1 PUT a node. Raises AlreadyExistsError, LimitExceededError for more than
        32 fields, and InvalidRequestError for a field that the model does not know, a document that cannot be indexed,
        and listing the values that a unique index finds more than once: nothing was written then.
        """
        from wormdb.api.indexes import read_index

        index = read_index(fields, name, unique=unique, sparse=sparse, bson_type=bson_type)
        if expireAfterSeconds is None:
            return self._indexes.create(index, wait=wait)
        from wormdb.api.expiry import IndexedExpiry  # few collections have one

        ends = IndexedExpiry.of(self._access, index.fields, expireAfterSeconds)
        made = self._indexes.create(index, wait=wait)
        ends.commit()
        return made

    @works
    def create_text_index(
        self,
        fields: str | Sequence[str],
        *,
        language: str | None = None,
        stop_words: Sequence[str] | bool | None = None,
        name: str | None = None,
        wait: bool = True,
    ) -> IndexSummary:
        """Make an index of the words of some fields, for `find(search="red shoes")`; each may have a weight: "title^3".

        `language` says whose stems are compared, such as "english" or "german"; without it words are compared as they
        are, without capitals and accents. `stop_words`, a list or True for those of the language, are left out. `name`
        is "text" if none is given. If the same index is there, nothing is written. Without `wait` the next forwarding
        builds it; until it is ready a search reads all documents. Costs as `create_index`. Raises AlreadyExistsError,
        MissingExtraError, and InvalidRequestError with every mistake.
        """
        from wormdb.api.indexes import read_text_index

        index = read_text_index(fields, name, language=language, stop_words=stop_words)
        return self._indexes.create(index, wait=wait)

    @works
    def create_vector_index(
        self,
        field: str,
        *,
        dimensions: int,
        distance: Distance = "cosine",
        name: str | None = None,
        wait: bool = True,
    ) -> IndexSummary:
        """Make an index of the vectors at a dotted field, each of `dimensions` numbers; `name` is that of the field.

        `distance` is cosine, euclidean or dot_product. From then on a document is refused whose field is there and is
        no such vector. If the same index is there, nothing is written. 1 PUT for the entry; building it is 1 GET a
        block, twice, and 1 PUT for each step of 20,000 documents and more. Raises AlreadyExistsError, MissingExtraError
        without the extra `vector`, and InvalidRequestError for a document that cannot be indexed.
        """
        from wormdb.api.indexes import read_vector_index

        return self._indexes.create(read_vector_index(field, name, dimensions, distance), wait=wait)

    @commits
    def drop_index(self, name: str | Sequence[tuple[str, int]]) -> None:
        """Drop an index that is not the model's, by its name or its pairs of fields and orders. 1 PUT.

        Raises NotFoundError, InvalidRequestError for the primary.
        """
        from wormdb.api.indexes import read_fields

        self._indexes.drop(name if isinstance(name, str) else "_".join(read_fields(name)))

    @reads
    def indexes(self) -> list[IndexSummary]:
        """Every index with its state, the primary one first. 1 GET in a warm process."""
        return self._indexes.all()

    @reads
    def describe_index(self, name: str) -> IndexDescription:
        """One index in detail: its definition, its state, and how many entries and values. 1 GET in a warm process.

        One that was dropped is described, as `dropped`, until `gc` has removed what it was stored in. Where readable
        files are kept, its file is looked at too, for 1 GET for each part of it and 1 more. Raises NotFoundError, as
        all calls that name an index.
        """
        return self._indexes.describe(name)

    @works
    def analyze_index(self, name: str) -> IndexDescription:
        """Bring the log forward, which measures indexes whose entries changed by a tenth, and describe one of them.

        Of an index of vectors it measures how much of the true answer is found by how many lists: 200 stored vectors
        are asked for, each against all others but its likes. Planning uses these numbers; whole answers never depend on
        them. Costs as `forward`, and 1 GET; of vectors 2 GETs for each 4 MiB of lists, 3 and 1 PUT more.
        """
        self._indexes.describe(name)
        self.forward()
        self._indexes.measure(name)
        return self._indexes.describe(name)

    @reads
    def index_tasks(self) -> list[IndexSummary]:
        """The indexes that wait, are being built, are to be made anew or failed. 1 GET in a warm process."""
        return [each for each in self._indexes.all() if each.state != "ready" or each.task is not None]

    @works
    def build_index(self, name: str) -> IndexSummary:
        """Build an index that waits or failed; one that is ready is brought up to date. Costs as `forward`.

        Its readable file is written again if it is lost, edited or another program's: 1 GET for each part of it more.
        Lists of vectors that are outgrown are made anew: 1 GET for each block, twice, and 1 PUT for each step of
        250,000 documents and more; another call goes on where one was broken off. No other ready index needs
        rebuilding: it is checked by `Database.verify`, and `repair` makes it anew if it is damaged. Raises
        InvalidRequestError with the reason if it fails.
        """
        return self._indexes.build(name)

    @works
    def build_indexes(self) -> list[IndexSummary]:
        """Build all indexes that wait, and bring the others up to date; every index. Costs as `forward`, and 1 GET.

        Readable files are written as `build_index` says.
        """
        return self._indexes.build_all()
