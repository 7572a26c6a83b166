"""A collection that can be brought into every state that documents can be in, and what pure functions say of it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from tests.engine.bulk.rig import run_job
from tests.engine.bulk.stage_rig import MANUAL, SMALL
from tests.engine.forward.compact_rig import as_before, compact_lists, rebuild_trees
from tests.engine.rig import Rig, ident, remove
from wormdb.api.database import Database
from wormdb.bql.match import compile_filter
from wormdb.bql.positions import compile_positions
from wormdb.bql.projection import project
from wormdb.bql.sorting import sort_key
from wormdb.bql.update.update import apply_update, parse_update
from wormdb.engine.commit.operations import Save
from wormdb.engine.forward.build import Builder
from wormdb.engine.forward.compact import Aim
from wormdb.errors import InvalidRequestError, UniqueViolationError
from wormdb.format import json
from wormdb.format.event import SchemaChanged
from wormdb.format.key import encode_key
from wormdb.query.sources.engine import EngineSource
from wormdb.schema.load import load_model, load_schema
from wormdb.settings import Settings
from wormdb.storage.memory import MemoryStore
from wormdb.storage.meter import MeteredStore
from wormdb.storage.pool import SerialPool
from wormdb.system.clock import SeededChance

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from wormdb.api.collection import Collection
    from wormdb.api.document import Document
    from wormdb.engine.forward.forward import Sizes
    from wormdb.engine.state.view import View
    from wormdb.query.execute.answer import Hit
    from wormdb.query.request import QueryRequest

__all__ = ["INDEXES", "STAMPS", "World", "answer", "canonical", "index_fields", "same", "shown"]

Values = dict[str, Any]

INDEXES: dict[str, dict[str, Any]] = {
    "byA": {"field": "a"},
    "byAB": {"field": "a.b", "sparse": False},
    "byB": {"field": "b", "sparse": False},
    "byN": {"field": "n", "sparse": False},
    "byT": {"field": "t", "type": "multiValue"},
    "byNA": {"fields": ["n", "a"], "sparse": False},
    "byNT": {"fields": ["n", "t"]},
    "byA0": {"field": "a.0", "sparse": False},
    "byABA": {"fields": ["a.b", "a.a"]},
    "onlyU": {"field": "u", "unique": True},
}
NOW = datetime(2020, 1, 1, tzinfo=UTC)
STAMPS = ("createdAt", "updatedAt")
REFUSALS = (InvalidRequestError, UniqueViolationError)
"""What a step may meet that the indexes or the model of a world do not allow; then nothing has happened."""


def index_fields(name: str) -> list[str]:
    """The fields of one of the indexes."""
    return list(INDEXES[name].get("fields") or [INDEXES[name]["field"]])


class _Stopped(Exception):  # noqa: N818 - a process that ends is no error
    """The process that builds an index ends here."""


@dataclass(repr=False)
class World:
    """One collection. Its documents are forwarded when told, and otherwise stay in the tail."""

    indexes: Sequence[str] = ()
    manifest: Sequence[str] = ()
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Fields that the model declares; documents are stored whatever it says."""
    cache_bytes: int = 0
    """Of the processes that `things` belongs to."""
    sizes: Sizes = SMALL
    """Of blocks: with the small ones a run has several."""
    rig: Rig = field(default_factory=Rig)
    has_model: bool = True
    """Whether there is one; without it there is no manifest, and no field is declared."""

    def __post_init__(self) -> None:
        self.model: Values = {
            "path": "@things/(id:any)",
            "version": 1,
            "fields": dict(self.fields),
            "indexes": {name: self._index(name) for name in self.indexes},
        }
        if self.manifest:
            self.model["manifest"] = {"enabled": True, "fields": list(self.manifest)}
        self.store = MeteredStore(self.rig.store, clock=self.rig.clock)
        self.ledger = self.rig.ledger(self.store, MANUAL, self.sizes)
        self._stager = self.rig.ledger(self.store, MANUAL, self.sizes, stage_bytes=1)
        assert self.has_model or not (self.manifest or self.fields), "without a model nothing is declared"
        if self.has_model:
            definition = load_model("Thing", self.model).canonical()
            self.ledger.commit(self.rig.batch(events=(SchemaChanged(definition=definition),)))
        self.documents: dict[bytes, Values] = {}
        self.written: dict[bytes, Values] = {}
        """The same as history has them: as they were written, before mappings."""
        self.past: dict[int, dict[bytes, Values]] = {}
        """By log number what there was then."""
        self._jobs, self._seeds = count(), count()
        self.story: list[str] = []
        """What happened to it, for people."""
        self.things = self.opened()
        """The collection as a process sees it that is there from the beginning."""
        for name in () if self.has_model else self.indexes:
            self.create_index(name)

    def __repr__(self) -> str:
        what = self.model if self.has_model else "no model"
        return "\n".join([f"World({what}, cache_bytes={self.cache_bytes}, sizes={self.sizes})", *self.story])

    def _index(self, name: str) -> Values:
        """An index as the model has it: of a field that is declared as no array, it has one value."""
        is_plain = self.fields.get(INDEXES[name].get("field", ""), {"type": "any"})["type"] not in ("any", "array")
        return _without(INDEXES[name], *(["type"] if is_plain else []))

    # --- changes ---

    def save(self, documents: Sequence[Values], *, staged: bool = False) -> None:
        """Write documents: through the log, or as blocks that a job attaches."""
        self.story.append(f"save documents={documents}, staged={staged}")
        if documents:
            operations = [Save(ident(one["_id"]), json.encode_document(one)) for one in documents]
            (self._stager if staged else self.ledger).commit(self.rig.batch(*operations))
            self.happened({encode_key(one["_id"]): one for one in documents})

    def load(self, tasks: Sequence[Sequence[Values]]) -> None:
        """Write documents as blocks of a job of several tasks, whose ranges may overlap; ids come once."""
        self.story.append(f"load tasks={tasks}")
        rows = [[(one["_id"], _without(one, "_id")) for one in each] for each in tasks]
        run_job(self.rig, rows, "replace", every=3, store=self.store, job=f"job {next(self._jobs)}")
        self.happened({encode_key(one["_id"]): one for each in tasks for one in each})

    def remove(self, identity: Any) -> None:
        """Delete one."""
        self.story.append(f"remove {identity!r}")
        self.ledger.commit(self.rig.batch(remove(identity)))
        self.happened({encode_key(identity): None})

    def happened(self, changes: Mapping[bytes, Values | None]) -> None:
        """Documents were changed, None for those that are gone."""
        for key, document in changes.items():
            if document is None:
                self.documents.pop(key, None)
                self.written.pop(key, None)
            else:
                self.documents[key] = self.written[key] = document
        self.past[self.ledger.view().number] = dict(self.written)

    def upgrade(self, mapping: Values, *, is_written: bool) -> None:
        """A new version of the model: by a mapping, or by a function, by which all documents are written again."""
        self.story.append(f"upgrade {mapping}, is_written={is_written}")
        if not self.has_model:
            raise InvalidRequestError("upgrade", reason="there is no model", fix="declare one")
        model = {**self.model, "version": self.model["version"] + 1}
        change = partial(apply_update, parse_update(mapping), now=NOW)
        expected = {key: change(one) for key, one in self.documents.items()}
        if is_written:
            self._database(model).apply_schema(migrate={"Thing": change})
        else:
            self._database(model).apply_schema(mappings={"Thing": mapping})
        written = dict(self.written)
        self.model = model
        self.things = self.opened()
        self.settle(expected)
        if not is_written:
            self.written = written
            self.past[self.ledger.view().number] = dict(written)

    def settle(self, expected: Mapping[bytes, Values]) -> None:
        """A change by the API happened: see that it is as expected but for times, which are learned from it."""
        held = {key: one.document for key, one in self.ledger.view().scan() if one.document is not None}
        found = {key: json.decode_document(body, name="document") for key, body in held.items()}
        assert {key: canonical(_without(one, *STAMPS)) for key, one in found.items()} == {
            key: canonical(_without(one, *STAMPS)) for key, one in expected.items()
        }
        changed = {key: one for key, one in found.items() if canonical(one) != canonical(self.documents.get(key))}
        self.happened({**dict.fromkeys(self.documents.keys() - found.keys()), **changed})

    # --- what changes no document ---

    def forward(self) -> None:
        """Bring everything into blocks and trees; indexes that wait are built."""
        self.story.append("forward")
        self.ledger.forward()

    def advance(self) -> None:
        """The same, and nothing is built or written again."""
        self.story.append("advance")
        self.ledger._advance.run()

    def forward_as_before(self) -> None:
        """The same by a version that gives columns to declared fields alone."""
        self.story.append("forward_as_before")
        with as_before():
            self.ledger._advance.run()

    def compact(self) -> None:
        """Write all blocks again as larger ones."""
        self.story.append("compact")
        compact_lists(self.ledger, Aim(self.sizes.block_target * 3, everything=True))

    def rebuild(self) -> None:
        """Make the trees of ready indexes again."""
        self.story.append("rebuild")
        if self.ledger._register.read().root is not None:
            rebuild_trees(self.ledger, Aim(self.sizes.block_target, everything=True))

    def trim(self) -> None:
        """Remove the entries of the log that blocks and history have."""
        self.story.append("trim")
        self.ledger.trim(0)

    def create_index(self, name: str) -> None:
        """Define an index that is not built yet."""
        self.story.append(f"create_index {name}")
        how = {each: INDEXES[name][each] for each in ("unique", "sparse") if each in INDEXES[name]}
        self.things.create_index(index_fields(name), name=name, wait=False, **how)

    def build(self, steps: int) -> None:
        """Go on with what is not built, some entries at a time; the process ends after so many looks at the state."""
        self.story.append(f"build {steps}")
        ledger, looks = self.ledger, count()

        def view() -> View:
            if next(looks) >= steps:
                raise _Stopped
            return ledger.view()

        builder = Builder(
            ledger._register,
            ledger.writer,
            SerialPool(),
            commit=ledger._commit_events,
            view=view,
            forward=ledger._advance.run,
            shelf=ledger.trees,
            chunk_entries=3,
        )
        with suppress(_Stopped):
            builder.run()

    # --- who reads ---

    def source(self) -> EngineSource:
        """The state now."""
        return EngineSource(self.ledger.view(), self.ledger)

    def cold(self) -> EngineSource:
        """The same for a process that knows nothing yet."""
        ledger = self.rig.ledger(self.store, MANUAL, self.sizes)
        return EngineSource(ledger.view(), ledger)

    def opened(self) -> Collection[Document]:
        """The collection for a process that knows nothing yet."""
        database = self._database(self.model)
        return database.model("Thing") if self.has_model else database["things"]

    def of_files(self) -> Collection[Document]:
        """The collection for a process that finds nothing but its readable files, as if somebody else kept them."""
        if not self.model.get("files"):
            self.story.append("files")
            self.model = {**self.model, "version": self.model["version"] + 1, "files": True}
            self._database(self.model).apply_schema()
            self.things = self.opened()
        self._database(self.model).forward()
        copy = MeteredStore(MemoryStore(clock=self.rig.clock), clock=self.rig.clock)
        for key in [one.key for page in self.store.list("") for one in page.objects]:
            if "/.worm.db/" not in key:
                copy.put(key, self.store.get(key).body)
        return self._database({**self.model, "mode": "readonly"}, copy).model("Thing")

    def _database(self, model: Values, store: MeteredStore | None = None) -> Database:
        return Database(
            store or self.store,
            SerialPool(),
            settings=Settings(
                forward="manual",
                forward_interval_ms=0,
                block_bytes=self.sizes.block_target,
                cache_bytes=self.cache_bytes,
            ),
            schema=load_schema({"schemaVersion": "1.0", "sourceOfTruth": "local", "models": {"Thing": model}})
            if self.has_model
            else None,
            actor=None,
            clock=self.rig.clock,
            chance=SeededChance(next(self._seeds)),
        )


# --- what must be answered ---


def answer(request: QueryRequest, documents: Mapping[bytes, Values]) -> list[tuple[bytes, bytes, Values]]:
    """Keys, sort keys and documents, by pure functions alone."""
    order, matches = sort_key(request.sort), compile_filter(request.filter)
    found = sorted((order(one), key, one) for key, one in documents.items() if matches(one))
    rows = [row for row in found if request.after is None or row[0] > request.after]
    rows = rows[request.offset :][: request.limit]
    if request.projection is None:
        return [(key, place, one) for place, key, one in rows]
    positions = compile_positions(request.filter, request.projection.arrays)
    return [(key, place, project(request.projection, one, matched=positions(one))) for place, key, one in rows]


def shown(hits: Sequence[Hit]) -> list[tuple[bytes, bytes, Values]]:
    """What was answered, in the same form."""
    return [(hit.key, hit.order, hit.document) for hit in hits]


def same(one: list[tuple[bytes, bytes, Values]], other: list[tuple[bytes, bytes, Values]]) -> bool:
    """Whether two answers are alike, fields in any order; NaN equals itself, 1 is not 1.0."""
    return [(key, place, canonical(document)) for key, place, document in one] == [
        (key, place, canonical(document)) for key, place, document in other
    ]


def canonical(value: Any) -> bytes:
    """Equal for values that are the same, fields in any order."""
    return json.encode(_sorted(value))


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


def _without(document: Values, *names: str) -> Values:
    return {name: value for name, value in document.items() if name not in names}
