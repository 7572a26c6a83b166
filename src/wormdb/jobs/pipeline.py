"""The jobs of one collection, with the same results wherever they run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wormdb.jobs.aggregate import AggregateOptions, aggregate
from wormdb.jobs.analyze import Analysis, AnalyzeOptions, analyze
from wormdb.jobs.compact import CompactOptions, CompactPlan, CompactResult, compact, plan_compact
from wormdb.jobs.embed import EmbedFunction, EmbedOptions, EmbedResult, embed
from wormdb.jobs.export import ExportOptions, ExportResult, export
from wormdb.jobs.history import HistoryExport, HistoryForm, export_history
from wormdb.jobs.import_ import FileRecords, ImportReport, import_files
from wormdb.jobs.place import Where
from wormdb.jobs.rebuild import RebuildOptions, RebuildResult, rebuild
from wormdb.jobs.verify import verify_collection
from wormdb.jobs.work import LocalRunner, ProgressListener, Runner

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wormdb.maintenance.audit.report import Verification

__all__ = ["Pipeline", "local_pipeline"]


class Pipeline:
    """Jobs over one collection: each reads one pinned state, and writers go on meanwhile."""

    def __init__(self, where: Where, runner: Runner, told: ProgressListener | None = None) -> None:
        """`told` hears how far a job is. No requests."""
        self.where = where
        self.runner = runner
        self.told = told

    def export(self, target: str, options: ExportOptions | None = None) -> ExportResult:
        """Write documents as files to a folder or a bucket; costs and raises as `wormdb.jobs.export.export`."""
        return export(self.where, target, options or ExportOptions(), self.runner, self.told)

    def aggregate(self, functions: Mapping[str, Any], options: AggregateOptions | None = None) -> dict[str, Any]:
        """What `Collection.aggregate(**functions)` gives; costs and raises as `wormdb.jobs.aggregate.aggregate`."""
        return aggregate(self.where, functions, options or AggregateOptions(), self.runner, self.told)

    def analyze(self, options: AnalyzeOptions | None = None) -> Analysis:
        """What the values of fields are; costs and raises as `wormdb.jobs.analyze.analyze`."""
        return analyze(self.where, options or AnalyzeOptions(), self.runner, self.told)

    def plan_compact(self, options: CompactOptions | None = None) -> CompactPlan:
        """What `compact` would do, and what it costs; costs and raises as `wormdb.jobs.compact.plan_compact`."""
        return plan_compact(self.where, options)

    def compact(self, options: CompactOptions | None = None, *, plan: CompactPlan | None = None) -> CompactResult:
        """Deltas and small blocks become base blocks; costs and raises as `wormdb.jobs.compact.compact`."""
        return compact(self.where, options or CompactOptions(), self.runner, self.told, plan=plan)

    def import_files(self, records: FileRecords) -> ImportReport:
        """Records of files into the collection, all or none; costs and raises as `wormdb.jobs.import_.import_files`."""
        return import_files(self.where, records, self.import_runner, self.told)

    @property
    def import_runner(self) -> Runner | None:
        """What reads files of an import in parts; None if this process reads them one after the other."""
        return None if type(self.runner) is LocalRunner else self.runner

    def embed(self, function: str | EmbedFunction, options: EmbedOptions) -> EmbedResult:
        """Give documents the vectors that a function makes of them; costs and raises as `wormdb.jobs.embed.embed`."""
        return embed(self.where, function, options, self.runner, self.told)

    def export_history(
        self, target: str, *, form: HistoryForm = "parquet", overwrite: bool = False, tasks: int | None = None
    ) -> HistoryExport:
        """Every change as a row of files; costs and raises as `wormdb.jobs.history.export_history`."""
        return export_history(self.where, target, self.runner, self.told, form=form, overwrite=overwrite, tasks=tasks)

    def rebuild(self, options: RebuildOptions | None = None) -> RebuildResult:
        """Blocks, columns and indexes made again from documents; costs and raises as `wormdb.jobs.rebuild.rebuild`."""
        return rebuild(self.where, options or RebuildOptions(), self.runner, self.told)

    def verify(self, *, unreferenced: bool = False) -> Verification:
        """What is wrong with the collection; costs and raises as `wormdb.jobs.verify.verify_collection`."""
        return verify_collection(self.where, self.runner, self.told, unreferenced=unreferenced)


def local_pipeline(
    url: str,
    model: str | None = None,
    *,
    collection: str | None = None,
    outer: Mapping[str, Any] | None = None,
    threads: int | None = None,
    told: ProgressListener | None = None,
) -> Pipeline:
    """The jobs of one collection in this process, in `threads` or as many as there are cores. No requests.

    Raises InvalidRequestError unless either `model` or `collection` is given.
    """
    return Pipeline(Where.named(url, model, collection, outer), LocalRunner(threads), told)
