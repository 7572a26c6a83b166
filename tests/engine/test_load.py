"""Bulk jobs that tasks fill: the state after them, what refuses them, and jobs that are run again."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.engine.bulk.rig import JOB, Loading, Plain, after_job, run_job
from tests.engine.bulk.stage_rig import MANUAL, REFUSALS, SCHEMA, SMALL, State, check_state, entries, kinds, logger
from tests.engine.rig import PATHS, Rig, contents, insert, remove, save
from wormdb.engine.bulk import task as bulk_task
from wormdb.engine.bulk.report import BulkTarget
from wormdb.engine.commit.operations import InsertNext
from wormdb.engine.load import BulkOutcome, JobSpec, abort, attach, job_id, open_job
from wormdb.engine.state.view import id_key
from wormdb.errors import AlreadyExistsError, ConflictError, InvalidRequestError, UniqueViolationError, WormError
from wormdb.format.event import JobAttached
from wormdb.format.sample import decode_sample

if TYPE_CHECKING:
    from tests.engine.bulk.rig import Rows
    from wormdb.engine.bulk.report import ConflictRule
    from wormdb.engine.commit.operations import Operation

# --- the state after a job ---

VALUES = st.fixed_dictionaries(
    {"pad": st.just("x" * 60)}, optional={"email": st.integers(0, 30).map(lambda n: f"{n}@x")}
)
TASK = st.lists(st.tuples(st.integers(0, 12).map(lambda n: f"k{n:02}"), VALUES), max_size=8)
EARLIER = st.dictionaries(st.integers(0, 12).map(lambda n: f"k{n:02}"), VALUES, max_size=6)


RULES: st.SearchStrategy[ConflictRule] = st.sampled_from(["error", "replace", "ignore"])


@settings(max_examples=15)
@given(
    EARLIER,
    st.sets(st.sampled_from([f"k{n:02}" for n in range(13)]), max_size=3),
    st.lists(TASK, max_size=4),
    st.tuples(RULES, st.booleans(), st.integers(1, 4)),
    st.booleans(),
)
def test_a_job_is_one_change_whatever_its_tasks_bring(
    earlier: dict[str, Any],
    deleted: set[str],
    tasks: list[Rows],
    how: tuple[ConflictRule, bool, int],
    is_forwarded: bool,
) -> None:
    rule, overwrite, every = how
    rig = Rig()
    plain = logger(rig, limits=MANUAL)
    emails: set[str] = set()
    plain.commit(rig.batch(events=(SCHEMA,)))
    for identity, values in earlier.items():
        if values.get("email") not in emails:
            plain.commit(rig.batch(insert(identity, **values)))
            emails |= {values["email"]} if "email" in values else set()
    plain.commit(rig.batch(*(remove(identity) for identity in sorted(deleted)), insert("z", email="99@x")))
    if is_forwarded:
        plain.forward()
    before: State = contents(plain.view())
    # Of rows with one id, one that changes the document goes before one that does not.
    given = [row for rows in tasks for row in rows]
    ids = [identity for identity, _ in given]
    assume(not any(ids.count(i) > 1 and i in before and before[i][2] == values for i, values in given))
    expected = after_job(before, tasks, 0, rule, overwrite=overwrite)
    if isinstance(expected, str):
        with pytest.raises(tuple(REFUSALS.values())):
            run_job(rig, tasks, rule, overwrite=overwrite, every=every)
        check_state(rig, before, plain)
        return
    outcome = run_job(rig, tasks, rule, overwrite=overwrite, every=every)
    told = after_job(before, tasks, outcome.number, rule, overwrite=overwrite)
    assert isinstance(told, dict)
    check_state(rig, told, plain)
    check_counts(before, told, outcome)
    check_sample(rig, told)
    rig.ledger(None, MANUAL, SMALL).forward()
    check_state(rig, told, plain)
    for email, owner in {v["email"]: i for i, (_, _, v) in told.items() if v is not None and "email" in v}.items():
        with pytest.raises(UniqueViolationError) as caught:
            plain.commit(rig.batch(insert("probe", email=email)))
        assert caught.value.owner == owner


def check_counts(before: State, after: State, outcome: BulkOutcome) -> None:
    alive = {i for i, one in before.items() if one[2] is not None}
    still = {i for i, one in after.items() if one[2] is not None}
    changed = {i for i, one in after.items() if one[0] == outcome.number}
    assert outcome.inserted == len(still - alive)
    assert outcome.deleted == len(alive - still)
    assert outcome.replaced == len(changed & alive & still)


def check_sample(rig: Rig, state: State) -> None:
    """Of so few documents the sample has every one that the job touched, and says which are gone."""
    event = entries(rig)[-1].events[0]
    assert isinstance(event, JobAttached)
    rows = decode_sample(event.sample, name="sample").rows
    number = rig.slots()[-1]
    changed = {id_key(b'"%b"' % i.encode()): one[2] for i, one in state.items() if one[0] == number}
    assert {key: bool(row) for key, row in rows.items()} == {key: values is not None for key, values in changed.items()}


def test_tasks_that_do_not_overlap_are_attached_as_they_wrote() -> None:
    rig = Rig()
    tasks: list[Rows] = [[(f"{t}{n}", {"pad": "x" * 200}) for n in range(6)] for t in "abc"]
    loading = Loading(rig)
    target = loading.open()
    assert isinstance(target, BulkTarget)
    reports = [loading.task(target, place, rows) for place, rows in enumerate(tasks)]
    written = len(blocks(rig))
    assert loading.attach(target, reversed_(reports)).inserted == 18
    assert len(blocks(rig)) == written
    assert kinds(rig) == ["JobOpened", "JobAttached"]
    attached = entries(rig)[-1].events[0]
    assert isinstance(attached, JobAttached)
    assert (len(attached.blocks), attached.added) == (written, 18)


def reversed_(reports: list[bytes]) -> list[bytes]:
    return list(reversed(reports))


def blocks(rig: Rig) -> list[str]:
    keys = [info.key for page in rig.store.list(PATHS.data) for info in page.objects]
    return [key for key in keys if key.endswith(".parquet")]


def test_many_small_tasks_become_one_block() -> None:
    rig = Rig()
    ledger = rig.ledger(limits=MANUAL)
    target = open_job(ledger, JobSpec(JOB, "test"))
    assert isinstance(target, BulkTarget)
    reports = []
    for place in range(20):
        task = bulk_task.BulkTask(ledger, target, Plain(), place)
        task.add([insert(f"k{place:02}")])
        reports.append(task.report())
    attach(ledger, target, reports, Plain())
    attached = entries(rig)[-1].events[0]
    assert isinstance(attached, JobAttached)
    assert [block.rows for block in attached.blocks] == [20]


def test_numbers_go_on_after_the_greatest_that_a_job_brought() -> None:
    rig = Rig()
    run_job(rig, [[("0000000007", {}), ("x", {})], [("0000000041", {})]])
    assert logger(rig).commit(rig.batch(InsertNext(b"{}"))).changes[0].id == b'"0000000042"'


def test_what_is_overwritten_goes_to_the_trash_if_there_is_one() -> None:
    rig = Rig()
    logger(rig).commit(rig.batch(insert("a", n=1), insert("b", n=1)))
    Loading(rig, spec=JobSpec(JOB, "test", overwrite=True, tombstone=b'"ttl":null')).run([[("b", {"n": 2})]])
    held = rig.ledger().view().get(id_key(b'"a"'))
    assert held is not None
    assert (held.document, held.trash) == (None, b'{"_id":"a","ttl":null,"document":{"_id":"a","n":1}}')


def test_history_and_feed_tell_what_a_job_did() -> None:
    rig = Rig()
    ledger = logger(rig)
    ledger.commit(rig.batch(insert("a", n=1), insert("b", n=1)))
    run_job(rig, [[("b", {"n": 2})], [("c", {"n": 3})]], "replace")
    view = ledger.view()
    versions = ledger.history(view).versions(id_key(b'"b"'))
    assert [(version.seq, version.op) for version in versions] == [(1, "create"), (2, "update")]
    records = list(ledger.feed(view.base_number).poll()) or list(ledger.feed(type(view.number)(0)).poll())
    told = [change.seq for record in records[-1:] for _, change in ledger.feed(view.number).changes(record)]
    assert told == [2, 1]


def test_digests_that_are_many_are_an_object(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_task, "BULK_DIGESTS_INLINE_MAX", 0)
    rig = Rig()
    logger(rig).commit(rig.batch(events=(SCHEMA,)))
    with pytest.raises(UniqueViolationError):
        run_job(rig, [[("a", {"email": "1"})], [("b", {"email": "1"})]], job="first")
    assert run_job(rig, [[("a", {"email": "1"})], [("b", {"email": "2"})]], job="second").inserted == 2
    assert any(key.key.endswith(".hashes") for page in rig.store.list(PATHS.data) for key in page.objects)


def test_equal_hashes_are_not_taken_for_equal_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_task, "key_hashes", lambda keys: array("Q", [7 for _ in keys]))
    monkeypatch.setattr("wormdb.engine.bulk.attach.key_hashes", lambda keys: array("Q", [7 for _ in keys]))
    rig = Rig()
    logger(rig).commit(rig.batch(events=(SCHEMA,)))
    run_job(rig, [[("a", {"email": "1"})], [("b", {"email": "2"})]], job="first")
    with pytest.raises(UniqueViolationError):
        run_job(rig, [[("c", {"email": "3"})], [("d", {"email": "3"})]], job="second")


# --- again ---


def test_a_job_that_was_attached_is_not_attached_again() -> None:
    rig = Rig()
    first = run_job(rig, [[("a", {})]])
    again = run_job(rig, [[("b", {})]])
    assert (again.number, again.is_repeated) == (first.number, True)
    rig.ledger().forward()
    assert run_job(rig, [[("b", {})]]).is_repeated
    assert sorted(contents(rig.ledger().view())) == ["a"]


def test_a_zombie_that_attaches_after_its_successor_is_told_the_outcome() -> None:
    rig = Rig()
    loading = Loading(rig)
    target, later = loading.open(), loading.open()
    assert isinstance(target, BulkTarget)
    assert isinstance(later, BulkTarget)
    report, other = loading.task(target, 0, [("a", {"n": 1})]), loading.task(later, 0, [("a", {"n": 1})])
    done = loading.attach(later, [other])
    assert loading.attach(target, [report]) == BulkOutcome(job_id(JOB), done.number, is_repeated=True)
    assert contents(rig.ledger().view()) == {"a": (done.number, 1, {"n": 1})}


def test_a_job_that_was_given_up_says_so() -> None:
    rig = Rig()
    loading = Loading(rig)
    target = loading.open()
    assert isinstance(target, BulkTarget)
    report = loading.task(target, 0, [("a", {})])
    abort(rig.ledger(), JOB, "no more")
    assert blocks(rig), "nothing is deleted"
    for act in (loading.open, lambda: loading.attach(target, [report])):
        with pytest.raises(ConflictError, match=r"aborted by entry 2.*another job id"):
            act()
    abort(rig.ledger(), JOB, "again")
    assert kinds(rig) == ["JobOpened", "JobAborted"]


def test_a_job_that_is_attached_cannot_be_given_up() -> None:
    rig = Rig()
    run_job(rig, [[("a", {})]])
    abort(rig.ledger(), JOB, "too late")
    assert kinds(rig) == ["JobOpened", "JobAttached"]


# --- what is refused ---


def test_what_is_refused_names_the_document() -> None:
    rig = Rig()
    logger(rig).commit(rig.batch(insert("a", email="1@x"), events=(SCHEMA,)))
    with pytest.raises(AlreadyExistsError, match="document 'a' in things/: it exists already"):
        run_job(rig, [[("a", {})]])
    with pytest.raises(AlreadyExistsError, match="document 'b': the data have it more than once"):
        run_job(rig, [[("b", {})], [("a0", {}), ("b", {}), ("c", {})]])
    with pytest.raises(UniqueViolationError, match="email='1@x' already exists on entity 'a'"):
        run_job(rig, [[("b", {"email": "1@x"})]])
    with pytest.raises(UniqueViolationError, match="email='2@x' already exists on entity 'b'"):
        run_job(rig, [[("b", {"email": "2@x"})], [("c", {"email": "2@x"})]])
    assert contents(rig.ledger().view()) == {"a": (1, 1, {"email": "1@x"})}


def test_reports_of_another_job_and_of_one_task_twice_are_refused() -> None:
    rig = Rig()
    loading, other = Loading(rig), Loading(rig, spec=JobSpec("another", "test"))
    target, elsewhere = loading.open(), other.open()
    assert isinstance(target, BulkTarget)
    assert isinstance(elsewhere, BulkTarget)
    first, again = (loading.task(target, 0, [("a", {})]) for _ in range(2))
    for reports in ([first, again], [other.task(elsewhere, 1, [("b", {})])]):
        with pytest.raises(InvalidRequestError, match="of another job, or two are of one task"):
            loading.attach(target, reports)


def test_a_rule_that_there_is_not() -> None:
    with pytest.raises(InvalidRequestError, match="no such rule"):
        open_job(Rig().ledger(), JobSpec(on_conflict="merge"))  # type: ignore[arg-type] # that is the point


# --- others write meanwhile ---


RIVALS: dict[str, Operation] = {
    "changes a document": save("a", n=5),
    "deletes a document": remove("a"),
    "inserts the same": insert("new", n=5),
    "inserts another": insert("other", n=5),
    "changes what is the same": save("same", n=5),
    "deletes another": remove("b"),
    "takes a value": insert("z", email="1"),
    "takes a value of another": save("a", email="2", n=6),
}


@pytest.mark.parametrize("name", RIVALS)
@pytest.mark.parametrize(
    ("rule", "overwrite"), [("error", False), ("replace", False), ("ignore", False), ("error", True)]
)
def test_what_came_between_tasks_and_attach_counts(name: str, rule: ConflictRule, overwrite: bool) -> None:
    rig = Rig()
    plain = logger(rig, limits=MANUAL)
    first = [insert("b", n=1)] if rule == "error" and not overwrite else [insert(i, n=1) for i in ("a", "b", "same")]
    plain.commit(rig.batch(*first, events=(SCHEMA,)))
    tasks: list[Rows] = [
        [("a", {"n": 2, "email": "1"}), ("same", {"n": 1})],
        [("new", {"n": 2, "email": "2"}), ("zz", {"pad": "x" * 300})],
    ]
    loading = Loading(rig, spec=JobSpec(JOB, "test", rule, overwrite))
    target = loading.open()
    assert isinstance(target, BulkTarget)
    reports = [loading.task(target, place, rows) for place, rows in enumerate(tasks)]
    plain.commit(rig.batch(RIVALS[name]))
    if len(name) % 2:
        plain.forward()
    middle = contents(plain.view())
    expected = after_job(middle, tasks, 0, rule, overwrite=overwrite)
    outcome, error = attempt(loading, target, reports)
    if outcome is None:
        check_state(rig, middle, plain)
        is_told = isinstance(error, ConflictError) and "that it left as it was has changed" in str(error)
        assert is_told or type(error).__name__ == expected
        return
    told = after_job(middle, tasks, outcome.number, rule, overwrite=overwrite)
    assert isinstance(told, dict)
    check_state(rig, told, plain)
    check_counts(middle, told, outcome)
    check_sample(rig, told)


def attempt(loading: Loading, target: BulkTarget, reports: list[bytes]) -> tuple[BulkOutcome | None, WormError | None]:
    try:
        return loading.attach(target, reports), None
    except (ConflictError, AlreadyExistsError) as error:
        return None, error


def test_two_jobs_at_once_see_each_other() -> None:
    rig = Rig()
    logger(rig).commit(rig.batch(events=(SCHEMA,)))
    one, other = (Loading(rig, spec=JobSpec(name, "test", "replace")) for name in ("one", "other"))
    targets = [loading.open() for loading in (one, other)]
    reports = []
    for loading, target in zip((one, other), targets, strict=True):
        assert isinstance(target, BulkTarget)
        reports.append(loading.task(target, 0, [("a", {"n": loading.spec.job}), (loading.spec.job, {"email": "1"})]))
    assert isinstance(targets[0], BulkTarget)
    assert isinstance(targets[1], BulkTarget)
    one.attach(targets[0], reports[:1])
    with pytest.raises(UniqueViolationError, match="'1' already exists on entity 'one'"):
        other.attach(targets[1], reports[1:])
    assert contents(rig.ledger().view())["a"][1:] == (1, {"n": "one"})
    again = other.task(targets[1], 0, [("a", {"n": "other"})])
    done = other.attach(targets[1], [again])
    assert contents(rig.ledger().view())["a"] == (done.number, 2, {"n": "other"})
