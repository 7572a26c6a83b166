"""A folder in which the objects of a cloud store stay: a process that begins asks for what is new only."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest

import wormdb
from wormdb.errors import InvalidRequestError, UnavailableError, WormError
from wormdb.settings import Settings
from wormdb.storage.memory import MemoryStore
from wormdb.storage.store import WrappedStore

if TYPE_CHECKING:
    from pathlib import Path

    from wormdb import Database
    from wormdb.storage.meter import MeteredRequest

_numbers = itertools.count()
DOCUMENTS = [{"id": f"k{number:04}", "n": number % 50, "text": "x" * 200} for number in range(2_000)]


class Bucket(WrappedStore):
    """A store in memory that is a cloud store to its callers."""

    def __init__(self, name: str) -> None:
        super().__init__(MemoryStore(name))

    @property
    def name(self) -> str:
        return f"s3://{self._inner.name.removeprefix('memory://')}"


class Place:
    """A database that is opened again and again, as by processes that know nothing."""

    def __init__(self, url: str | None = None) -> None:
        self.url = url or f"cache-folder-{next(_numbers)}"
        with self.open() as database:
            things = database["things"]
            things.create_index("n")
            things.insert_many(DOCUMENTS)
            things.forward()

    def open(self, **settings: Any) -> Database:
        self.requests: list[MeteredRequest] = []
        chosen = Settings(forward="manual", forward_interval_ms=0, **settings)
        place = self.url if "://" in self.url else Bucket(self.url)
        return wormdb.connect(place, settings=chosen, hook=self.requests.append)

    @property
    def fetched(self) -> int:
        """Requests for objects that never change."""
        return sum("/data/" in one.key or "/indexes/" in one.key for one in self.requests if one.kind == "get")


def answers(database: Database) -> list[Any]:
    things = database["things"]
    return [
        things.find_by_id("k0042"),
        sorted(one["id"] for one in things.find({"n": 7})),
        things.aggregate(sum=["n"]),
        things.to_arrow(["n"]).num_rows,
    ]


def damage(folder: Path) -> int:
    """Spoil every file of a cache, each in one of three ways; how many."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    for number, path in enumerate(files):
        body = path.read_bytes()
        path.write_bytes([body[:-1], body[:60] + b"?" + body[61:], b""][number % 3])
    return len(files)


def test_a_second_process_asks_for_nothing_that_never_changes(tmp_path: Path) -> None:
    place = Place()
    with place.open() as database:
        expected = answers(database)
        cold = place.fetched
    assert cold >= 3
    with place.open(cache_folder=str(tmp_path / "cache")) as database:
        assert answers(database) == expected
        assert place.fetched == cold
    with place.open(cache_folder=str(tmp_path / "cache")) as database:
        assert answers(database) == expected
        assert place.fetched == 0
        database["things"].save({"id": "k0042", "n": 7})
        database["things"].forward()
        assert database["things"].count({"n": 7}) == 41
    with place.open(cache_folder=str(tmp_path / "cache")) as database:
        assert database["things"].count({"n": 7}) == 41
        changed = database["things"].find_by_id("k0042")
        assert changed is not None
        assert changed["n"] == 7


def test_a_spoiled_file_is_never_believed(tmp_path: Path) -> None:
    place = Place()
    with place.open(cache_folder=str(tmp_path)) as database:
        expected = answers(database)
        cold = place.fetched
    assert damage(tmp_path) >= cold
    with place.open(cache_folder=str(tmp_path)) as database:
        assert answers(database) == expected
        assert place.fetched == cold


def test_databases_of_the_same_names_share_a_folder(tmp_path: Path) -> None:
    one, other = Place(), Place()
    with other.open() as database:
        database["things"].delete("k0001")
        database["things"].forward()
    for place, count in ((one, 2_000), (other, 1_999), (one, 2_000), (other, 1_999)):
        with place.open(cache_folder=str(tmp_path)) as database:
            assert len(list(database["things"].find())) == count


def test_verify_looks_at_the_store_and_not_at_the_folder(tmp_path: Path) -> None:
    place = Place()
    with place.open(cache_folder=str(tmp_path)) as database:
        answers(database)
        key = next(
            info.key
            for page in database.store.list("things/.worm.db/data/")
            for info in page.objects
            if ".parquet" in info.key
        )
        database.store.put(key, b"damaged")
    with place.open(cache_folder=str(tmp_path)) as database:
        assert any(finding.key == key for each in database.verify(["things"]) for finding in each.findings)


def test_the_environment_names_it_unless_the_settings_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place()
    monkeypatch.setenv("WORM_CACHE", str(tmp_path / "environment"))
    for settings, used in (
        ({}, "environment"),
        ({"cache_folder": str(tmp_path / "setting")}, "setting"),
        ({"cache_folder": ""}, None),
        ({"cache_bytes": 0}, "environment"),
    ):
        for _ in range(2):
            with place.open(**settings) as database:
                answers(database)
        assert (place.fetched == 0) == (used is not None), settings
        assert used is None or any((tmp_path / used).iterdir())


@pytest.mark.parametrize("kind", ["memory", "folder"])
def test_a_store_that_is_near_needs_none(tmp_path: Path, kind: str) -> None:
    url = f"memory://cache-folder-{next(_numbers)}" if kind == "memory" else f"file://{tmp_path}/database"
    place = Place(url)
    with place.open(cache_folder=str(tmp_path / "cache")) as database:
        answers(database)
    assert not (tmp_path / "cache").exists()


def test_what_is_wrong_with_it_is_told(tmp_path: Path) -> None:
    wrong: Any = 7
    with pytest.raises(InvalidRequestError, match="setting cache_folder=7"):
        Settings(cache_folder=wrong)
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(UnavailableError, match="cache folder"):
        wormdb.connect(Bucket("x"), settings=Settings(cache_folder=str(tmp_path / "file" / "cache")))


def test_on_s3_a_second_process_asks_for_the_root_and_the_log(tmp_path: Path, s3_url: str) -> None:
    place = Place(s3_url)
    with place.open() as database:
        expected = answers(database)
    counts = []
    for _ in range(2):
        with place.open(cache_folder=str(tmp_path)) as database:
            assert answers(database) == expected
        counts.append((len(place.requests), place.fetched))
    (cold, fetched), (warm, none) = counts
    assert (cold - warm, none) == (fetched, 0)
    assert fetched > warm // 2
    with pytest.raises(WormError), place.open(cache_folder=str(tmp_path)) as database:
        database.store.get("things/.worm.db/data/none.parquet")
