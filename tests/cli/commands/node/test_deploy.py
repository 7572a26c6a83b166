"""A node where it is deployed: the address it listens on, logs as JSON, and the files of deploy/."""

from __future__ import annotations

import json
import logging
import os
import re
import shlex
import subprocess
import sys
import tomllib
import urllib.request
from configparser import ConfigParser
from contextlib import ExitStack
from pathlib import Path

import click
import pytest

from tests.cli.printed import worm
from tests.jobs.node.rig import Rig
from wormdb.cli.commands.node import run
from wormdb.cli.show.logs import JsonLines
from wormdb.errors import InvalidRequestError
from wormdb.jobs.node import endpoint
from wormdb.jobs.node.endpoint import Endpoint, NodeMonitor, is_loopback

DEPLOY = Path(__file__).parents[4] / "deploy"


@pytest.mark.parametrize("host", ["127.0.0.2", "localhost", None])
def test_a_node_serves_where_it_is_told(host: str | None) -> None:
    rig = Rig()
    rig.database()["a"].insert({"id": 1})
    node = rig.started(4)
    with Endpoint(NodeMonitor(node), 0, host) as served:
        assert served.url == f"http://{host or '127.0.0.1'}:{served.port}"
        with urllib.request.urlopen(f"{served.url}/health", timeout=10) as answer:
            assert json.loads(answer.read())["node"] == 4


@pytest.mark.parametrize("is_own", [True, False])
def test_what_other_machines_reach_is_warned_of(
    is_own: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(endpoint, "is_loopback", lambda host: is_own)  # the address itself stays that of this machine
    with ExitStack() as stack:
        run._serve(stack, Rig().started(4), "127.0.0.1", 0)
    assert ("without a password" in caplog.text) is not is_own


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match=r"port 0 of 192\.0\.2\.1"):
        Endpoint(NodeMonitor(Rig().started(4)), 0, "192.0.2.1")


@pytest.mark.parametrize(
    ("host", "is_own"),
    [("127.0.0.1", True), ("127.1.2.3", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False)],
)
def test_only_loopback_is_for_this_machine_alone(host: str, is_own: bool) -> None:
    assert is_loopback(host) is is_own


def test_a_host_without_a_port_is_refused(memory: str) -> None:
    refused = worm("node", "run", "--host", "0.0.0.0", "--url", memory)
    assert (refused.code, "add --port" in refused.errors) == (2, True)


def test_a_line_of_a_log_is_one_object() -> None:
    try:
        raise ValueError("one\ntwo")
    except ValueError as error:
        caught = (ValueError, error, error.__traceback__)
    record = logging.LogRecord("wormdb.x", logging.WARNING, "x.py", 1, "a %s\nb", ("c",), caught)
    record.created = 1_767_225_600.5
    text = JsonLines().format(record)
    assert "\n" not in text
    found = json.loads(text)
    assert found.pop("error").endswith("ValueError: one\ntwo")
    assert found == {
        "time": "2026-01-01T00:00:00.500Z",
        "level": "warning",
        "logger": "wormdb.x",
        "message": "a c\nb",
    }


def parsed(arguments: list[str]) -> dict[str, object]:
    """What the command would be given: raises for an option that there is not."""
    assert arguments[:2] == ["node", "run"]
    context = run.command.make_context("run", [*arguments[2:], "--url", "memory://"])
    return context.params


def test_the_unit_runs_a_command_that_there_is() -> None:
    unit = ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign] # names keep their capitals
    unit.read(DEPLOY / "worm-node@.service")
    program, *arguments = shlex.split(unit["Service"]["ExecStart"])
    assert program.endswith("/bin/worm")
    assert (parsed(arguments)["port"], parsed(arguments)["host"]) == (9464, None)
    assert (unit["Service"]["KillSignal"], unit["Service"]["DynamicUser"]) == ("SIGTERM", "yes")
    assert not unit["Service"]["CapabilityBoundingSet"], "a node needs no rights on the machine"


def test_the_container_runs_a_command_that_there_is() -> None:
    text = (DEPLOY / "Containerfile").read_text()
    entry = re.search(r"^ENTRYPOINT (\[.*\])$", text, re.MULTILINE)
    arguments = re.search(r"^CMD (\[.*\])$", text, re.MULTILINE)
    assert entry is not None
    assert arguments is not None
    assert json.loads(entry[1]) == ["worm"]
    given = parsed(json.loads(arguments[1]))
    assert (given["host"], given["port"], given["log_format"]) == ("0.0.0.0", 9464, "json")
    assert f"EXPOSE {given['port']}" in text
    with pytest.raises(click.NoSuchOption):
        parsed(["node", "run", "--hots", "x"])


def instructions() -> list[tuple[str, str]]:
    """Each instruction of the container file, and what follows it."""
    lines = [line for line in (DEPLOY / "Containerfile").read_text().splitlines() if line and not line.startswith("#")]
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines)]


def test_the_container_copies_all_that_is_there_and_that_the_build_needs() -> None:
    root = DEPLOY.parent
    copied = [
        name for word, rest in instructions() if word == "COPY" and "--from" not in rest for name in rest.split()[:-1]
    ]
    assert all((root / name).exists() for name in copied)
    project = tomllib.loads((root / "pyproject.toml").read_text())
    readme = project["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["fragments"]
    needed = {"pyproject.toml", *project["project"]["license-files"]}
    needed |= {each["path"] for each in readme if "path" in each}
    needed |= {Path(project["tool"]["hatch"]["version"]["path"]).parts[0]}
    assert needed <= set(copied)


def test_the_container_installs_what_the_lock_file_names() -> None:
    runs = [rest for word, rest in instructions() if word == "RUN"]
    assert all("--require-hashes -r requirements/core.txt" in rest or "--no-deps" in rest for rest in runs)


def test_the_stages_of_the_container_are_there_and_its_program_lies_where_it_is_looked_for() -> None:
    found = instructions()
    assert {word for word, _ in found} <= {
        *("FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "EXPOSE", "HEALTHCHECK", "ENTRYPOINT", "CMD")
    }
    images = [rest.split() for word, rest in found if word == "FROM"]
    stages = {image[2] for image in images if image[1:2] == ["AS"]}
    sources = re.findall(r"--from=(\S+) (\S+) (\S+)", "\n".join(rest for word, rest in found if word == "COPY"))
    assert {stage for stage, _, _ in sources} <= stages
    # A venv names its own folder: it must lie in the same one, of the same Python, in both stages.
    assert all(here == there for _, here, there in sources)
    assert len({image[0] for image in images}) == 1
    (made,) = re.findall(r"python -m venv (\S+)", "\n".join(rest for word, rest in found if word == "RUN"))
    environment = dict(one.split("=", 1) for word, rest in found if word == "ENV" for one in rest.split())
    assert (made, environment["PATH"].split(":")[0]) == (sources[0][2], f"{made}/bin")
    assert [rest for word, rest in found if word == "USER"] == ["65532:65532"], "not root"


def test_the_health_check_of_the_container_tells_a_node_that_lives_from_none() -> None:
    (rest,) = [rest for word, rest in instructions() if word == "HEALTHCHECK"]
    program, option, code = json.loads(rest[rest.index("[") :])
    assert (program, option) == ("python", "-c")
    rig = Rig()
    rig.database()["a"].insert({"id": 1})
    with Endpoint(NodeMonitor(rig.started(4)), 0, None) as served:
        here = code.replace("127.0.0.1:9464", f"127.0.0.1:{served.port}")
        proxied = {**os.environ, "http_proxy": "http://127.0.0.1:1", "no_proxy": ""}
        assert (
            subprocess.run([sys.executable, "-c", here], check=False, capture_output=True, env=proxied).returncode == 0
        )
    assert subprocess.run([sys.executable, "-c", here], check=False, capture_output=True).returncode == 1
