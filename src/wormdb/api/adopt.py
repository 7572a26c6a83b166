"""Adopt a collection of files that others wrote: which model it gets, where its files lie, and what is published."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypedDict, get_args

from wormdb.api.schema import PublishedSchema
from wormdb.engine.commit.resolve import landed
from wormdb.engine.ledger import CommitResult, Ledger, Runtime
from wormdb.engine.state.expiry import expiry_events
from wormdb.errors import ConflictError, InvalidRequestError
from wormdb.files.adopt.adopt import Adopter, Adoption
from wormdb.files.adopt.survey import AdoptionChoices
from wormdb.files.contents.names import FileNames, Placement
from wormdb.files.write.record import claim_name, find_owner
from wormdb.format.event import Event, FilesSwitched, SchemaChanged
from wormdb.schema.difference import describe_mismatch
from wormdb.schema.identity import check_outer
from wormdb.schema.layout import StorageResolver
from wormdb.schema.model import Mode, Model, Schema
from wormdb.system.types import LogNumber, Misc

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from wormdb.api.calls import Author
    from wormdb.engine.state.view import View
    from wormdb.storage.store import Store

__all__ = ["AdoptOptions", "AdoptionRequest"]


class AdoptOptions(TypedDict, total=False):
    """How a collection of files is adopted; everything has a default."""

    outer: Mapping[str, Any]
    """The outer parts of the model's path, if it has some."""
    mode: Mode
    """Of the model from then on; by default one for reading only becomes `readwrite`."""
    on_broken: Literal["error", "skip"]
    """What to do about a file that cannot be read: refuse all (the default), or leave its document out."""
    on_mismatch: Literal["error", "entity"]
    """What to do about a document that is not as its oplog ends: refuse all (the default), or take its own file."""
    job: str
    """A name for the job: called again with it, nothing is adopted twice."""
    dry_run: bool
    """Read and judge everything, and write nothing."""
    verify: bool
    """Whether what was written is read again and compared with every file, before it counts; it is by default."""
    told: Callable[[str, int, int], None]
    """Hears what is being done, how much of it is done, and how much there is (0 if that is not known)."""


@dataclass(frozen=True, slots=True)
class AdoptionRequest:
    """How one collection is adopted: with `model`, as `schema` places its files."""

    model: Model
    collection: str
    schema: Schema
    options: AdoptOptions

    @classmethod
    def of(cls, model: Model, schema: Schema | None, options: AdoptOptions) -> AdoptionRequest:
        """Raises InvalidRequestError for a choice that there is not. No requests."""
        known: dict[str, tuple[str, ...]] = {
            "mode": get_args(Mode),
            "on_broken": ("error", "skip"),
            "on_mismatch": ("error", "entity"),
        }
        given: dict[str, Any] = {**options}
        for name, values in known.items():
            if given.get(name, values[0]) not in values:
                raise InvalidRequestError(f"{name}={given[name]!r}", reason=f"it is one of {', '.join(values)}")
        becomes: Mode = "readwrite" if model.mode == "readonly" else model.mode
        adopted = replace(model, mode=options.get("mode", becomes))
        collection = adopted.path.collection_prefix(check_outer(adopted, options.get("outer", {})))
        assert schema is not None, "the model was found there"
        return cls(adopted, collection, replace(schema, models={**schema.models, adopted.name: adopted}), options)

    def run(self, ledger: Ledger, runtime: Runtime, by: Author, sync: Callable[[str], object]) -> Adoption:
        """Do it, and publish the model. Costs as `Adopter.run`, and 1 GET and 1 PUT for the schema.

        Files of another log, which would pass for newer than ours, are written again by `sync`, if all of them were
        taken over: it removes what the collection does not have.
        """
        options, job = self.options, self.options.get("job")
        if job == "":
            raise InvalidRequestError("job ''", reason="it is empty", fix="give a name, or none")
        placement = self._placement(ledger.view(), runtime.store)
        adopter = Adopter(
            ledger,
            runtime,
            FileNames(self.model, self.collection, placement),
            events=lambda view: self._events(view, placement),
            claim=lambda: self._claim(runtime.store, placement),
            finish=lambda done, remove: self._finish(done, remove, runtime.store, sync),
            actor=by.actor,
            meta=by.meta,
        )
        if "told" in options:
            adopter = replace(adopter, told=options["told"])
        choices = AdoptionChoices(
            on_broken=options.get("on_broken", "error"),
            on_mismatch=options.get("on_mismatch", "error"),
            verify=options.get("verify", True),
            dry_run=options.get("dry_run", False),
        )
        return adopter.run(job, choices)

    def _finish(
        self, done: Adoption, remove: Callable[[], None], store: Store, sync: Callable[[str], object]
    ) -> Adoption:
        """Publish the model, and have files of another log written again; then nothing is left of the job."""
        assert done.number is not None, "it is adopted"
        committed = CommitResult(LogNumber(done.number), Misc(0), (), done.commit_id or "")
        with landed(f"the adoption of {self.collection}", committed, rest="it is adopted; job= again does the rest"):
            PublishedSchema(store).add(self.schema, renewed=[self.model.name])
            if done.stale and self.model.files and not (done.counts.skipped or done.counts.mismatched):
                sync(self.collection.rstrip("/"))
                done = replace(done, stale=False)
            remove()
        return done

    def _placement(self, view: View, store: Store) -> Placement:
        if view.definition.files is not None:
            return Placement.switched(view.definition.files)
        placement = Placement.of(self.schema.storage, self.collection)
        last = self.model.path.collection_name
        if self.model.path.outer or not self._uses_root(placement):
            return placement
        owner = find_owner(store, last) or StorageResolver(self.schema).taken_names.get(last)
        return replace(placement, name=f"{last}/") if owner == self.collection else placement

    def _claim(self, store: Store, placement: Placement) -> None:
        last = self.model.path.collection_name
        if placement.name != f"{last}/" or not self._uses_root(placement):
            return
        if claim_name(store, last, self.collection) != placement.name:
            raise ConflictError(
                f"the name {last} in the folders at the root of the bucket",
                reason="another collection took it meanwhile",
                fix="run it again",
            )

    def _events(self, view: View, placement: Placement) -> tuple[Event, ...]:
        """What defines the collection; raises SchemaMismatchError if it has another definition already."""
        stored = view.definition.model
        events: list[Event] = []
        if stored is not None and replace(stored, mode=self.model.mode) != self.model:
            raise describe_mismatch(stored, self.model)
        body = self.model.canonical()
        if view.definition.body != body:
            events.append(SchemaChanged(definition=body))
            events += expiry_events(stored, self.model, 0)
        switched = FilesSwitched(
            enabled=self.model.files,
            oplog=placement.oplog,
            snapshots=placement.snapshots,
            trash=placement.trash,
            name=placement.name,
        )
        before = view.definition.files
        is_new = self.model.files if before is None else before.enabled != self.model.files
        return (*events, switched) if is_new else tuple(events)

    @staticmethod
    def _uses_root(placement: Placement) -> bool:
        return "root" in {placement.oplog, placement.snapshots, placement.trash}
