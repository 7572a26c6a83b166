"""Embed: each document gets the vector of the value that it has, once, whatever others do meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wormdb
from tests.cli.printed import worm
from tests.jobs.rig import SendingRunner, empty_place
from tests.jobs.toy_vectors import of_rows, of_texts, vector_of
from wormdb.errors import ConflictError, InvalidRequestError, OutcomeUnknownError, ValidationError
from wormdb.format.vector import read_vector
from wormdb.jobs import embed as job
from wormdb.jobs.embed import EmbedOptions
from wormdb.jobs.pipeline import Pipeline
from wormdb.jobs.place import Where
from wormdb.jobs.work import LocalRunner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from wormdb import Database

TOY = "tests.jobs.toy_vectors:of_texts"
TITLES = EmbedOptions(("title",), "v", batch_rows=2)


@pytest.fixture
def db() -> Iterator[Database]:
    with wormdb.connect(empty_place(), settings=wormdb.Settings(forward="manual")) as made:
        made["things"].insert_many([{"id": number, "title": f"t{number}", "n": number} for number in range(7)])
        yield made


def jobs(db: Database, told: Any = None) -> Pipeline:
    return Pipeline(Where.named(db.url, collection="things"), SendingRunner(1), told)


def vectors(db: Database, field: str = "v") -> dict[Any, list[float]]:
    return {row["id"]: numbers(row[field]) for row in db["things"].find() if row.get(field) is not None}


def numbers(value: Any) -> list[float]:
    found = read_vector(value)
    assert not isinstance(found, str)
    return list(found)


def recorded(calls: list[list[Any]], between: Callable[[], object] = lambda: None) -> Callable[[Sequence[Any]], Any]:
    """A function that notes what it was asked for, while others do something."""

    def function(values: Sequence[Any]) -> Any:
        calls.append(list(values))
        between()
        return of_texts(values)

    return function


def here(db: Database) -> Pipeline:
    """In one thread, with functions that cannot be sent."""
    return Pipeline(Where.named(db.url, collection="things"), LocalRunner(1))


def test_each_document_with_a_value_gets_a_vector_and_a_second_run_does_nothing(db: Database) -> None:
    db["things"].insert_many([{"id": 10, "n": 1}, {"id": 11, "title": None}, {"id": 12, "title": "x", "v": [1.0]}])
    steps: list[Any] = []
    done = jobs(db, steps.append).embed(TOY, TITLES)
    assert (done.embedded, done.changed, done.left, done.batches, done.dimensions) == (7, 0, 0, 4, 3)
    assert vectors(db) == {**{number: vector_of(f"t{number}") for number in range(7)}, 12: [1.0]}
    assert (steps[-1].job, steps[-1].done, steps[-1].items, steps[-1].rows) == ("embed", 3, 3, 5)
    number = db["things"]._ledger.view().number
    again = jobs(db).embed(TOY, TITLES)
    assert (again.embedded, again.batches, again.dimensions) == (0, 0, None)
    assert db["things"]._ledger.view().number == number


def test_a_batch_is_one_call_and_one_entry(db: Database) -> None:
    before = db["things"]._ledger.view().number
    calls: list[list[Any]] = []
    here(db).embed(recorded(calls), TITLES)
    assert calls == [["t0", "t1"], ["t2", "t3"], ["t4", "t5"], ["t6"]]
    assert db["things"]._ledger.view().number == before + 4


def test_equal_values_of_a_batch_are_embedded_once(db: Database) -> None:
    db["things"].update_many({}, {"$set": {"title": "same"}})
    calls: list[list[Any]] = []
    here(db).embed(recorded(calls), EmbedOptions(("title",), "v", batch_rows=7))
    assert calls == [["same"]]
    assert set(map(tuple, vectors(db).values())) == {tuple(vector_of("same"))}


def test_a_run_that_stopped_goes_on_behind_what_was_written(db: Database) -> None:
    calls: list[list[Any]] = []

    def stop() -> None:
        if len(calls) >= 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        here(db).embed(recorded(calls, stop), TITLES)
    assert set(vectors(db)) == {0, 1, 2, 3}
    calls.clear()
    assert here(db).embed(recorded(calls), TITLES).embedded == 3
    assert calls == [["t4", "t5"], ["t6"]]


def test_a_document_that_changed_meanwhile_gets_the_vector_of_what_it_is(db: Database) -> None:
    calls: list[list[Any]] = []

    def change() -> None:
        if len(calls) == 1:
            db["things"].update_one({"_id": 1}, {"$set": {"title": "changed"}})
            db["things"].update_one({"_id": 0}, {"$set": {"n": 100}})

    done = here(db).embed(recorded(calls, change), TITLES)
    assert (done.embedded, done.changed) == (7, 1)
    assert calls[:2] == [["t0", "t1"], ["changed"]]
    assert vectors(db)[1] == vector_of("changed")
    assert db["things"].count({"_id": 0, "n": 100}) == 1


def test_a_document_that_went_or_got_a_vector_meanwhile_is_left_alone(db: Database) -> None:
    calls: list[list[Any]] = []

    def change() -> None:
        if len(calls) == 1:
            db["things"].delete(0)
            db["things"].update_one({"_id": 1}, {"$set": {"v": [9.0]}})

    done = here(db).embed(recorded(calls, change), TITLES)
    assert (done.embedded, done.left) == (5, 2)
    assert vectors(db) == {1: [9.0], **{number: vector_of(f"t{number}") for number in range(2, 7)}}


def test_a_document_that_changes_all_the_time_is_told(db: Database) -> None:
    calls: list[list[Any]] = []

    def change() -> None:
        db["things"].update_one({"_id": 0}, {"$set": {"title": f"again {len(calls)}"}})

    with pytest.raises(ConflictError, match="changed 10 times while vectors were made"):
        here(db).embed(recorded(calls, change), TITLES)
    assert vectors(db) == {}


TITLE = st.sampled_from(["a", "bb", "ccc", None])
ACTS = st.lists(
    st.one_of(
        st.tuples(st.just("save"), st.integers(0, 5), TITLE),
        st.tuples(st.just("title"), st.integers(0, 5), TITLE),
        st.tuples(st.just("delete"), st.integers(0, 5), st.none()),
    ),
    max_size=3,
)


@settings(max_examples=40)
@given(ACTS, st.lists(ACTS, max_size=6))
def test_with_a_mark_vectors_are_of_the_values_that_documents_have(before: list[Any], between: list[Any]) -> None:
    with wormdb.connect(empty_place(), settings=wormdb.Settings(forward="manual")) as db:
        things = db["things"]
        things.insert_many([{"id": number, "title": "start"} for number in range(4)])
        waiting = iter(between)

        def act(acts: list[Any]) -> None:
            for verb, identity, title in acts:
                if verb == "save":
                    things.save({"id": identity, "title": title})
                elif verb == "title":
                    things.update_one({"_id": identity}, {"$set": {"title": title}})
                else:
                    things.delete(identity)

        act(before)
        options = EmbedOptions(("title",), "v", batch_rows=2, mark="made.of")
        here(db).embed(recorded([], lambda: act(next(waiting, []))), options)
        for acts in waiting:
            act(acts)
        quiet: list[list[Any]] = []
        here(db).embed(recorded(quiet), options)
        for row in things.find():
            if row.get("title") is not None:
                assert numbers(row["v"]) == vector_of(row["title"])
        assert here(db).embed(recorded([]), options).embedded == 0


def test_another_version_of_a_function_makes_marked_vectors_again(db: Database) -> None:
    def function(values: Sequence[Any]) -> Any:
        return of_texts(values)

    options = EmbedOptions(("title",), "v", mark="of")
    assert here(db).embed(function, options).embedded == 7
    assert here(db).embed(function, options).embedded == 0
    function.version = 2  # type: ignore[attr-defined]  # as users give one
    assert here(db).embed(function, options).embedded == 7


def test_all_documents_are_embedded_again_if_asked(db: Database) -> None:
    here(db).embed(recorded([]), TITLES)
    db["things"].update_one({"_id": 0}, {"$set": {"title": "new"}})
    assert here(db).embed(recorded([]), TITLES).embedded == 0
    done = here(db).embed(recorded([]), EmbedOptions(("title",), "v", filter="n<3", again=True))
    assert done.embedded == 3
    assert vectors(db)[0] == vector_of("new")


def test_several_fields_are_given_as_dicts_and_vectors_may_be_lists_in_depth(db: Database) -> None:
    db["things"].update_many({}, {"$set": {"body": "light"}})
    options = EmbedOptions(("title", "body"), "vectors.text", form="list")
    assert jobs(db).embed("tests.jobs.toy_vectors:of_rows", options).embedded == 7
    (expected,) = of_rows([{"title": "t3", "body": "light"}])
    assert db["things"].count({"_id": 3, "vectors.text": list(expected)}) == 1


def test_a_model_that_declares_an_array_gets_lists() -> None:
    model = {"path": "@things/(id:string)", "fields": {"title": {"type": "string"}, "v": {"type": "array"}}}
    schema = {"schemaVersion": "1.0", "sourceOfTruth": "local", "models": {"Thing": model}}
    with wormdb.connect(empty_place(), schema=schema, apply=True) as db:
        db.model("Thing").insert({"id": "x", "title": "t"})
        Pipeline(Where.named(db.url, "Thing"), LocalRunner(1)).embed(of_texts, TITLES)
        assert db.model("Thing").count({"v": vector_of("t")}) == 1
        with pytest.raises(ValidationError, match="expected array, got Binary"):
            Pipeline(Where.named(db.url, "Thing"), LocalRunner(1)).embed(
                of_texts, EmbedOptions(("title",), "v", again=True, form="packed")
            )


def test_an_index_finds_them_and_refuses_vectors_of_another_length(db: Database) -> None:
    db["things"].create_vector_index("v", dimensions=3, distance="euclidean")
    jobs(db).embed(TOY, TITLES)
    found = db["things"].find(near={"v": {"vector": vector_of("t4"), "k": 1}})
    assert [(row["id"], score) for row, score in found.scored()] == [(4, 1.0)]
    db["things"].create_vector_index("w", dimensions=4)
    with pytest.raises(InvalidRequestError, match="it must have 4 numbers, not 3"):
        jobs(db).embed(TOY, EmbedOptions(("title",), "w"))


def test_a_long_log_is_brought_forward_on_the_way(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "LAG_ENTRIES", 3)
    lags: list[int] = []

    def look() -> None:
        view = Where.named(db.url, collection="things").access().view()
        lags.append(view.number - view.base_number)

    here(db).embed(recorded([], look), EmbedOptions(("title",), "v", batch_rows=1))
    assert max(lags) < 3
    look()
    assert lags[-1] == 0


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("tests.jobs.toy_vectors:nothing", "has no attribute 'nothing'"),
        ("tests.jobs.toy_vectors", "the function 'tests.jobs.toy_vectors'"),
        ("tests.jobs.nowhere:f", "No module named"),
        ("tests.jobs.toy_vectors:number", "it cannot be called"),
        ("tests.jobs.toy_vectors:too_few", "it gave 1 vectors"),
        ("tests.jobs.toy_vectors:of_two_lengths", "vectors of 1 and of 2 numbers"),
        ("tests.jobs.toy_vectors:wrong", "it raised ValueError: 2 are too many"),
    ],
)
def test_a_function_that_cannot_be_used_stops_it_at_the_first_batch(db: Database, function: str, words: str) -> None:
    with pytest.raises(InvalidRequestError) as raised:
        jobs(db).embed(function, TITLES)
    assert words in str(raised.value)
    assert vectors(db) == {}


@pytest.mark.parametrize(
    "options",
    [
        EmbedOptions((), "v"),
        EmbedOptions(("v",), "v"),
        EmbedOptions(("title",), "id"),
        EmbedOptions(("title",), "v", mark="title"),
        EmbedOptions(("title",), "v", batch_rows=0),
        EmbedOptions(("title",), "v", batch_rows=1_001),
        EmbedOptions(("title..x",), "v"),
        EmbedOptions(("title",), "n.v"),
    ],
)
def test_fields_that_cannot_be_used_are_refused(db: Database, options: EmbedOptions) -> None:
    with pytest.raises(InvalidRequestError):
        jobs(db).embed(TOY, options)
    assert vectors(db) == {}


def test_the_command_embeds_by_a_module_of_the_folder(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "own_toy.py").write_text("def of_texts(texts):\n    return [[len(text), 1.0] for text in texts]\n")
    asked = ["things", "own_toy:of_texts", "--from", "title", "--to", "v", "--batch", "3", "--url", "db"]
    with wormdb.connect("db") as made:
        made["things"].insert_many([{"id": f"a{number}", "title": "x" * number} for number in range(1, 8)])
    done = worm("table", "embed", *asked, "--progress")
    assert (done.code, done.text) == (0, "things: 7 documents embedded of 2 numbers\n"), done.errors
    assert '"job":"embed"' in done.errors.replace(" ", "")
    assert worm("table", "embed", *asked).text == "things: 0 documents embedded\n"
    again = worm("pipeline", "embed", *asked, "--all", "--filter", "title=xx", "--json")
    assert '"embedded":1' in again.text.replace(" ", "").replace("\n", "")
    failed = worm("table", "embed", "things", "own_toy:none", "--from", "title", "--to", "v", "--url", "db")
    assert failed.code == 2
    assert "has no attribute 'none'" in failed.errors


def test_an_unknown_outcome_is_told_and_the_next_run_goes_on(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    from wormdb.api.batch import Batch

    whole = Batch.flush
    flushed: list[Any] = []

    def flush(self: Any) -> Any:
        flushed.append(whole(self))
        if len(flushed) == 2:
            raise OutcomeUnknownError("a commit", reason="no answer")
        return flushed[-1]

    monkeypatch.setattr(Batch, "flush", flush)
    with pytest.raises(OutcomeUnknownError, match="embed stopped at documents 3 to 4"):
        here(db).embed(recorded([]), TITLES)
    assert here(db).embed(recorded([]), TITLES).embedded == 0
    assert set(vectors(db)) == set(range(7))
