"""Searches for words: beside tantivy, with the same stems and every word wanted."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import wormdb
from benchmarks.glosses import make_questions, make_texts
from benchmarks.measure import Count, Row, compare, take
from benchmarks.rounds import call_cold
from wormdb.storage.memory import MemoryStore

if TYPE_CHECKING:
    from pathlib import Path

    from wormdb import Collection, Document

__all__ = ["compare_texts"]

LIMIT: Final = 10
ASKED: Final = 300
COLD: Final = 5
BATCH: Final = 5_000
SETTINGS: Final = wormdb.Settings(forward="manual")


def compare_texts(count: int, folder: Path) -> list[Row | Count]:
    """All comparisons, of that many texts or as many as there are."""
    texts = make_texts(count)
    questions = make_questions(texts, ASKED)
    tantivy = _Tantivy(folder / "tantivy")
    (folder / "tantivy").mkdir()
    theirs = take(lambda: tantivy.build(texts), time.process_time)
    ours, mine = _load(texts)
    words = [" ".join(own) for own in questions]
    musts = [" ".join(f"+{word}" for word in own) for own in questions]
    same = sum(len(ours.ids(mine)) == len(tantivy.ids(his)) for mine, his in zip(words, musts, strict=True)) / ASKED
    share = ours.size() / tantivy.size()
    what = f"{len(texts):,} texts"
    rows: list[Row | Count] = [
        Row(f"build the index, {what}", "tantivy: add, commit, merge", len(texts), mine, theirs, at_least=0.5),
        Count("bytes of the index", "tantivy, with positions", share, "≤ 0.5", share <= 0.5),
        Count("searches that find as many", "tantivy", same, "≥ 0.95", same >= 0.95),
        compare(
            f"ids and scores of {LIMIT}, 1 to 3 words",
            lambda: [ours.ids(own) for own in words],
            "tantivy",
            lambda: [tantivy.ids(own) for own in musts],
            count=ASKED,
            at_least=0.3,
            rounds=5,
            clock=time.process_time,
        ),
        *_count_cold(ours.store, words),
    ]
    ours.database.close()
    return rows


@dataclass
class _Ours:
    """A collection of texts."""

    store: MemoryStore
    database: wormdb.Database
    made: Collection[Document]

    def ids(self, asked: str) -> list[tuple[str, float]]:
        """The ids of the best, and scores."""
        found = self.made.find(search=asked, limit=LIMIT, select=["_id"])
        return [(row["id"], score) for row, score in found.scored()]

    def size(self) -> int:
        """The bytes of the index."""
        return sum(one.size for page in self.store.list() for one in page.objects if "/indexes/" in one.key)


def _load(texts: list[str]) -> tuple[_Ours, float]:
    """The collection, brought forward and then indexed, and the processor seconds of the index."""
    store = MemoryStore()
    database = wormdb.connect(store, settings=SETTINGS)
    made = database["glosses"]
    for start in range(0, len(texts), BATCH):
        made.insert_many(
            [{"id": f"{start + row:07}", "text": text} for row, text in enumerate(texts[start : start + BATCH])]
        )
    made.forward()
    seconds = take(lambda: made.create_text_index(["text"], language="english"), time.process_time)
    return _Ours(store, database, made), seconds


class _Tantivy:
    """The same texts; of a document its id is kept, its text is not."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._index: Any = None

    def build(self, texts: list[str]) -> None:
        import tantivy

        schema = tantivy.SchemaBuilder()
        schema.add_text_field("id", stored=True, tokenizer_name="raw")
        schema.add_text_field("text", tokenizer_name="en_stem")
        self._index = tantivy.Index(schema.build(), path=str(self._folder))
        writer = self._index.writer(num_threads=1)
        for row, text in enumerate(texts):
            writer.add_document(tantivy.Document(id=f"{row:07}", text=text))
        writer.commit()
        writer.wait_merging_threads()
        self._index.reload()
        self._searcher = self._index.searcher()

    def ids(self, asked: str) -> list[tuple[str, float]]:
        """The ids of the best, and scores."""
        found = self._searcher.search(self._index.parse_query(asked, ["text"]), LIMIT)
        return [(self._searcher.doc(place)["id"][0], score) for score, place in found.hits]

    def size(self) -> int:
        """The bytes of all its files."""
        return sum(path.stat().st_size for path in self._folder.iterdir())


def _count_cold(store: MemoryStore, words: list[str]) -> list[Row | Count]:
    def ask(asked: str) -> Any:
        return lambda database: database["glosses"].find(search=asked, limit=LIMIT, select=["_id"]).to_list()

    cold = [call_cold(store, ask(own)) for own in words[:COLD]]
    rounds = max(one.rounds for one in cold)
    requests, size = max(one.requests for one in cold), max(one.bytes for one in cold)
    return [
        Count("cold, ids and scores: rounds", f"most of {COLD} searches", rounds, "≤ 4", rounds <= 4),
        Count("cold: requests", "", requests, "none", passed=True),
        Count("cold: MB", "", size / 1_000_000, "none", passed=True),
    ]
