"""The applications of docs/how-to run as printed: FastAPI with two workers, Flask preloaded, Celery, Lambda."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

import wormdb
from tests.apps.pages import ask, environment, save_page, served
from wormdb.system.clock import SystemClock

if TYPE_CHECKING:
    from pathlib import Path

UVICORN = ["uvicorn", "app:app", "--workers", "2", "--port", "PORT", "--log-level", "warning"]


def check_users(base: str, url: str) -> None:
    made = ask(base, "POST", "/users", {"name": "Ada", "email": "ada@example.com"})
    assert made.status == 201
    assert made.body["email"] == "ada@example.com"
    path, tag = f"/users/{made.body['id']}", made.headers["etag"]

    # ETags, from whichever worker
    for _ in range(6):
        found = ask(base, "GET", path)
        assert (found.status, found.headers["etag"], found.body) == (200, tag, made.body)
        assert ask(base, "GET", path, if_none_match=tag).status == 304
    changed = ask(base, "PUT", path, {"name": "Ada L.", "email": "ada@example.com"}, if_match=tag)
    assert (changed.status, changed.body["name"]) == (200, "Ada L.")
    assert ask(base, "PUT", path, {"name": "late", "email": "ada@example.com"}, if_match=tag).status == 412
    assert ask(base, "PUT", path, {"name": "blind", "email": "ada@example.com"}).status == 428
    assert ask(base, "GET", path, if_none_match=tag).body["name"] == "Ada L."

    # unique e-mail addresses, at both workers at once
    with ThreadPoolExecutor(8) as pool:
        several = [
            pool.submit(ask, base, "POST", "/users", {"name": f"n{n}", "email": f"same{n % 3}@example.com"})
            for n in range(24)
        ]
        statuses = sorted(each.result().status for each in several)
    assert statuses == [201] * 3 + [409] * 21

    # what does not fit
    assert ask(base, "POST", "/users", {"name": "x", "email": "not an address"}).status == 422
    assert ask(base, "GET", "/users/00000000-0000-4000-8000-000000000000").status == 404
    assert ask(base, "GET", "/users?after=damaged").status == 422

    # pages
    seen, after = [], ""
    while True:
        page = ask(base, "GET", f"/users?limit=2{after}").body
        seen += [user["email"] for user in page["users"]]
        if page["next"] is None:
            break
        after = f"&after={page['next']}"
    assert seen == ["ada@example.com", *(f"same{n}@example.com" for n in range(3))]

    tag = ask(base, "GET", path).headers["etag"]
    assert ask(base, "DELETE", path, if_match=tag).status == 204
    assert ask(base, "GET", path).status == 404
    with wormdb.connect(url) as db:
        assert db["users"].count() == 3


def test_the_fastapi_application_with_two_workers_on_a_folder(tmp_path: Path) -> None:
    save_page("fastapi.md", tmp_path)
    url = str(tmp_path / "database")
    with served(UVICORN, tmp_path, environment(url), "/users") as base:
        check_users(base, url)


@pytest.mark.s3
def test_the_fastapi_application_with_two_workers_on_s3(tmp_path: Path, s3_url: str) -> None:
    save_page("fastapi.md", tmp_path)
    with served(UVICORN, tmp_path, environment(s3_url), "/users") as base:
        check_users(base, s3_url)


GUNICORN = ["gunicorn", "--preload", "--workers", "2", "--threads", "4", "--bind", "127.0.0.1:PORT", "guestbook:app"]


def check_guestbook(base: str, url: str) -> None:
    with ThreadPoolExecutor(8) as pool:
        several = [pool.submit(ask, base, "POST", "/entries", {"name": f"n{n:02}", "text": "hi"}) for n in range(20)]
        assert {each.result().status for each in several} == {201}
    first = ask(base, "GET", "/entries?limit=15").body
    rest = ask(base, "GET", f"/entries?limit=15&after={first['next']}").body
    assert [entry["name"] for entry in (*first["entries"], *rest["entries"])] == [f"n{n:02}" for n in range(20)]
    with wormdb.connect(url) as db:
        assert db["entries"].count() == 20


def test_the_flask_application_preloaded_by_gunicorn_on_a_folder(tmp_path: Path) -> None:
    save_page("flask.md", tmp_path)
    url = str(tmp_path / "database")
    with served(GUNICORN, tmp_path, environment(url), "/entries") as base:
        check_guestbook(base, url)


@pytest.mark.s3
def test_the_flask_application_preloaded_by_gunicorn_on_s3(tmp_path: Path, s3_url: str) -> None:
    save_page("flask.md", tmp_path)
    with served(GUNICORN, tmp_path, environment(s3_url), "/entries") as base:
        check_guestbook(base, s3_url)


CELERY = ["celery", "-A", "word_tasks", "worker", "--concurrency", "2", "--pool", "prefork"]
SEND = """
from word_tasks import count_words
for number in range(12):
    count_words.delay(f"page-{number}", "word " * number)
"""
BROKER = """
from word_tasks import app
app.conf.update(
    broker_transport_options={"data_folder_in": "queue", "data_folder_out": "queue", "control_folder": "control"}
)
"""


def test_the_celery_tasks_run_in_a_worker_that_forks(tmp_path: Path) -> None:
    save_page("celery.md", tmp_path)
    for name in ("queue", "control"):
        (tmp_path / name).mkdir()
    with (tmp_path / "word_tasks.py").open("a") as file:
        file.write(BROKER.replace("from word_tasks import app\n", ""))
    url = str(tmp_path / "database")
    variables = environment(url, BROKER_URL="filesystem://", PYTHONPATH=str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-c", SEND],
        cwd=tmp_path,
        env=variables,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    log = tmp_path / "worker.log"
    with log.open("wb") as output:
        worker = subprocess.Popen(
            [sys.executable, "-m", *CELERY],
            cwd=tmp_path,
            env=variables,
            stdout=output,
            stderr=output,
        )
        try:
            clock = SystemClock()
            end = clock.monotonic() + 90
            with wormdb.connect(url) as db:
                while db["pages"].count() < 12:
                    assert worker.poll() is None, log.read_text()
                    assert clock.monotonic() < end, log.read_text()
                    clock.sleep(0.1)
                assert {page.id: page["words"] for page in db["pages"]} == {f"page-{n}": n for n in range(12)}
        finally:
            worker.terminate()
            worker.wait(60)


INVOKE = """
import json, sys
import function

def event(method, body=""):
    return {"requestContext": {"http": {"method": method}}, "pathParameters": {"id": "a"}, "body": body}

answers = [function.handler(event("GET"), None)]
for number in range(3):
    answers.append(function.handler(event("PUT", json.dumps({"n": number})), None))
    answers.append(function.handler(event("GET"), None))
heavy = sorted({"pyarrow", "asyncio", "wormdb.aio", "wormdb.query.planner.planner", "pandas"} & sys.modules.keys())
print(json.dumps({"answers": answers, "heavy": heavy}))
"""


def invoked(folder: Path, url: str) -> Any:
    save_page("aws-lambda.md", folder)
    done = subprocess.run(
        [sys.executable, "-c", INVOKE],
        cwd=folder,
        env=environment(url, PYTHONPATH=str(folder)),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def check_function(told: Any) -> None:
    assert [answer["statusCode"] for answer in told["answers"]] == [404, *[200] * 6]
    assert [json.loads(answer["body"])["n"] for answer in told["answers"][1:]] == [0, 0, 1, 1, 2, 2]
    assert told["heavy"] == []


def test_the_lambda_function_starts_cold_without_what_it_does_not_need(tmp_path: Path) -> None:
    check_function(invoked(tmp_path, str(tmp_path / "database")))


@pytest.mark.s3
def test_the_lambda_function_on_s3(tmp_path: Path, s3_url: str) -> None:
    check_function(invoked(tmp_path, s3_url))
