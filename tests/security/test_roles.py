"""Least privilege: the shipped policies give what each role uses, no more, and the doctor sees the difference."""

from __future__ import annotations

import json
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import wormdb
from tests.http_script import Reply, scripted_server
from wormdb.cli.main import run
from wormdb.engine.log.paths import EnginePaths
from wormdb.errors import PermissionDeniedError
from wormdb.settings import Settings
from wormdb.storage.cloud.bucket import bucket_findings
from wormdb.storage.conditions import forget_conditions
from wormdb.storage.examine import CheckStatus
from wormdb.storage.meter import RequestKind
from wormdb.storage.open import open_store
from wormdb.storage.roles import Role, s3_policy
from wormdb.storage.url import parse_url
from wormdb.system.types import LogNumber

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.storage.meter import MeteredRequest

POLICIES = Path(__file__).parents[2] / "docs" / "policies"
# What S3 asks for each kind of request; an upload in parts that fails is also taken back.
NEEDS = {
    RequestKind.GET: {"s3:GetObject"},
    RequestKind.HEAD: {"s3:GetObject"},
    RequestKind.LIST: {"s3:ListBucket"},
    RequestKind.PUT: {"s3:PutObject", "s3:AbortMultipartUpload"},
    RequestKind.DELETE: {"s3:DeleteObject"},
}
SCHEMA = {
    "schemaVersion": "1.0",
    "sourceOfTruth": "remote",
    "models": {"Note": {"path": "@notes/(id:any)/[note].json"}},
}
SETTINGS = Settings(forward="manual", forward_interval_ms=0)


def actions_of(policy: dict[str, Any]) -> set[str]:
    return {action for statement in policy["Statement"] for action in statement["Action"]}


def read_everything(database: wormdb.Database) -> None:
    things = database["things"]
    assert things.find_by_id("a") is not None
    assert things.find_by_id("never") is None
    assert len(things.find_all({"n": {"$gte": 1}}, sort={"n": 1}, limit=3)) == 3
    assert things.get_history("a")
    assert [*things.watch()]
    assert "things/" in database.collections()
    assert database.status(["things"])
    assert database.verify(["things"], unreferenced=True)[0].is_sound


def write_everything(database: wormdb.Database) -> None:
    things = database["things"]
    things.insert_many([{"id": name, "n": number, "text": "x" * 200} for number, name in enumerate("abcdefgh")])
    things.create_index("n")
    things.save({"id": "a", "n": 10})
    things.update_many({"n": {"$lt": 5}}, {"$inc": {"n": 1}})
    things.delete("h")
    things.snapshot("a")
    database.forward(["things"])


def serve_everything(database: wormdb.Database) -> None:
    """What only a service does: it takes away files of documents that are gone, and garbage."""
    notes = database.model("Note")
    notes.insert({"id": "a", "text": "x"})
    database.forward(["Note"])
    notes.delete("a")
    database.forward(["Note"])
    database.gc(["things"])


SESSIONS: dict[Role, tuple[Callable[[wormdb.Database], None], ...]] = {
    Role.READER: (read_everything,),
    Role.WRITER: (write_everything, read_everything),
    Role.SERVICE: (write_everything, serve_everything, read_everything),
}


@pytest.mark.parametrize("role", list(Role))
def test_the_shipped_files_are_the_policies(role: Role) -> None:
    shipped = json.loads((POLICIES / f"s3-{role}.json").read_text())
    assert shipped == s3_policy(role, parse_url("s3://my-bucket/my-prefix"))


@pytest.mark.parametrize("role", list(Role))
def test_a_role_uses_all_of_its_rights_and_works_with_them(
    role: Role, become: Callable[[str], None], app_url: str
) -> None:
    forget_conditions()
    if role is Role.READER:
        become("owner")
        with wormdb.connect(app_url, settings=SETTINGS) as database:
            write_everything(database)
    become(role)
    requests: list[MeteredRequest] = []
    with wormdb.connect(app_url, schema=SCHEMA, settings=SETTINGS, hook=requests.append) as database:
        for session in SESSIONS[role]:
            session(database)
    used = {
        action for request in requests if request.error != "PermissionDeniedError" for action in NEEDS[request.kind]
    }
    assert used == actions_of(s3_policy(role, parse_url(app_url)))
    # The one request that may be refused: a writer cleans up after its first look at the store if it can.
    refused = [request for request in requests if request.error == "PermissionDeniedError"]
    assert {(request.kind, request.key.partition("/")[0]) for request in refused} <= {
        (RequestKind.DELETE, ".worm.probe")
    }


def test_a_reader_cannot_write_and_is_told_so(become: Callable[[str], None], app_url: str) -> None:
    become("reader")
    with wormdb.connect(app_url) as database, pytest.raises(PermissionDeniedError):
        database["things"].insert({"id": "a"})


def test_a_delete_that_is_refused_is_no_passing_trouble(become: Callable[[str], None], app_url: str) -> None:
    become("writer")
    with open_store(app_url) as store:
        store.put("a", b"1")
        with pytest.raises(PermissionDeniedError):
            store.delete("a")
        with pytest.raises(PermissionDeniedError):
            store.delete_many(["a", "b"])
        assert store.get("a").body == b"1"


@pytest.mark.parametrize("role", list(Role))
@pytest.mark.parametrize("key", ["reader", "writer", "service", "naive"])
def test_the_doctor_tells_keys_apart(
    role: Role, key: str, become: Callable[[str], None], app_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    become("owner")
    with open_store(app_url) as store:
        store.put("something", b"1")
    become(key)
    assert run(["doctor", app_url, "--role", role.value, "--json"]) == (0 if key == role else 1)
    report = json.loads(capsys.readouterr().out)
    failed = {finding["check"] for finding in report["findings"] if finding["status"] == "fail"}
    rights = {"reader": set(), "naive": set(), "writer": {"write"}, "service": {"write", "delete"}}
    expected = rights[key] ^ rights[role]
    if key == "naive":
        expected |= {"list", "read"}
    assert failed - {"missing object"} == expected
    assert report["passed"] is (key == role)


def test_the_doctor_prints_the_policy_of_a_place(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "s3://bucket/a/b", "--role", "writer", "--policy"]) == 0
    policy = json.loads(capsys.readouterr().out)
    assert policy == s3_policy(Role.WRITER, parse_url("s3://bucket/a/b"))
    assert policy["Statement"][1]["Resource"] == ["arn:aws:s3:::bucket/a/b/*"]
    assert run(["doctor", "s3://bucket", "--policy"]) == 2
    assert run(["doctor", "gs://bucket", "--role", "writer", "--policy"]) == 2


def test_a_folder_shows_too_many_rights(tmp_path: Path) -> None:
    assert run(["doctor", str(tmp_path), "--role", "service"]) == 0
    assert run(["doctor", str(tmp_path), "--role", "reader"]) == 1
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["now"], "the folder's time"


def test_the_policy_of_the_bucket_covers_every_commit() -> None:
    """No key, not even one with too many rights, may replace an entry of a log or write it without a condition."""
    policy = json.loads((POLICIES / "s3-bucket.json").read_text())
    guarded = next(entry for entry in policy["Statement"] if entry["Sid"] == "OnlyConditionalCommits")
    assert guarded["Effect"] == "Deny"
    assert guarded["Action"] == "s3:PutObject"
    assert guarded["Condition"]["Null"] == {"s3:if-none-match": "true"}
    pattern = guarded["Resource"].removeprefix("arn:aws:s3:::my-bucket/my-prefix/")
    assert fnmatch(EnginePaths.of_collection("org/customers/").entry(LogNumber(7)), pattern)
    assert not fnmatch(EnginePaths.of_collection("org/customers/").root, pattern)


LIFECYCLE = """<LifecycleConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Rule><ID>old</ID>
<Status>{status}</Status><Filter><Prefix>{prefix}</Prefix></Filter>{what}</Rule></LifecycleConfiguration>"""
EXPIRES = "<Expiration><Days>30</Days></Expiration>"
SETTINGS_SEEN = [
    (LIFECYCLE.format(status="Enabled", prefix="", what=EXPIRES), CheckStatus.FAIL),
    (LIFECYCLE.format(status="Enabled", prefix="a%20b/".replace("%20", " "), what=EXPIRES), CheckStatus.FAIL),
    (LIFECYCLE.format(status="Enabled", prefix="a b/org/", what=EXPIRES), CheckStatus.FAIL),
    (LIFECYCLE.format(status="Enabled", prefix="logs/", what=EXPIRES), CheckStatus.OK),
    (LIFECYCLE.format(status="Disabled", prefix="", what=EXPIRES), CheckStatus.OK),
    (
        LIFECYCLE.format(
            status="Enabled", prefix="", what="<Transition><StorageClass>GLACIER</StorageClass></Transition>"
        ),
        CheckStatus.FAIL,
    ),
    (
        LIFECYCLE.format(
            status="Enabled",
            prefix="",
            what="<NoncurrentVersionExpiration><NoncurrentDays>3</NoncurrentDays></NoncurrentVersionExpiration>",
        ),
        CheckStatus.OK,
    ),
    ("<!DOCTYPE a [<!ENTITY a 'b'>]><a>&a;</a>", CheckStatus.SKIP),
    ("<a", CheckStatus.SKIP),
]


@pytest.mark.parametrize(("answer", "status"), SETTINGS_SEEN)
def test_lifecycle_rules_over_our_prefix_are_found(
    answer: str, status: CheckStatus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    versioned = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
    with scripted_server() as script:
        script.answer(Reply(200, answer.encode()), Reply(200, versioned))
        with open_store(f"s3://bucket/a%20b?endpoint={script.endpoint}&region=us-east-1") as store:
            lifecycle, versioning = bucket_findings(store)
        assert [asked.path for asked in script.asked] == ["/bucket?lifecycle=", "/bucket?versioning="]
    assert lifecycle.status is status
    assert versioning.status is CheckStatus.WARN


def test_a_real_bucket_shows_its_settings(become: Callable[[str], None], app_url: str) -> None:
    become("owner")
    with open_store(app_url) as store:
        lifecycle, versioning = bucket_findings(store)
    assert lifecycle.status in (CheckStatus.OK, CheckStatus.SKIP)
    assert versioning.status is CheckStatus.OK


@pytest.mark.parametrize(
    ("key", "code", "verdict"),
    [
        ("writer", 0, "wormdb can read and write here"),
        ("reader", 1, "wormdb can read here; this key may not write"),
        ("naive", 1, "wormdb cannot read here: list"),
    ],
)
def test_the_doctor_says_what_a_key_can_do(
    key: str,
    code: int,
    verdict: str,
    become: Callable[[str], None],
    app_url: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    become("owner")
    with open_store(app_url) as store:
        store.put("something", b"1")
    become(key)
    assert run(["doctor", app_url]) == code
    assert capsys.readouterr().out.splitlines()[-1] == verdict
    if key == "reader":
        assert run(["doctor", app_url, "--read-only"]) == 0
        assert capsys.readouterr().out.splitlines()[-1] == "wormdb can read here; writing was not tried"
        assert run(["doctor", app_url, "--json"]) == 1
        findings = json.loads(capsys.readouterr().out)["findings"]
        assert [each["check"] for each in findings if each["status"] == "fail"] == ["write"]
