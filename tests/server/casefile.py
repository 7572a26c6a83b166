"""Tables of cases: commands, and their replies in RESP2 and RESP3.

    # a group of cases: a new database, a new connection
    @people                          the commands of the group `people` come first, and must not fail
    > BUCKET.LIST                    a command, in the words of redis-cli
    * ["users"]                      its reply in both protocols; or two lines, `2 …` and `3 …`

In replies `<oid>` stands for 24 hex digits, `<int>` for digits, `<any>` for anything. `python -m tests.server.casefile
FILE …` writes the replies of a server into the files, for people to compare with the specification: it shows what is,
not what should be.
"""

from __future__ import annotations

import re
import shlex
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tests.server.conftest import running
from tests.server.wire import Wire

__all__ = ["FOLDER", "Case", "CaseGroup", "differences", "read_groups"]

FOLDER = Path(__file__).parent / "cases"
_MARKS = {"<oid>": "[0-9a-f]{24}", "<int>": "[0-9]+", "<any>": ".*"}


@dataclass(slots=True)
class Case:
    command: str
    replies: dict[int, str] = field(default_factory=dict)


@dataclass(slots=True)
class CaseGroup:
    name: str
    uses: list[str]
    cases: list[Case]
    lines: list[str]
    """As they stand in the file, for what is written back."""


def read_groups(path: Path) -> list[CaseGroup]:
    groups: list[CaseGroup] = []
    for line in path.read_text().splitlines():
        if line.startswith("# "):
            groups.append(CaseGroup(line[2:], [], [], []))
        elif line.startswith("@"):
            groups[-1].uses.append(line[1:].strip())
        elif line.startswith("> "):
            groups[-1].cases.append(Case(line[2:]))
        elif line[:2] in ("* ", "2 ", "3 "):
            for version in (2, 3) if line[0] == "*" else (int(line[0]),):
                groups[-1].cases[-1].replies[version] = line[2:]
        else:
            assert not line or line.startswith("//"), line
    return groups


def matches(expected: str, reply: str) -> bool:
    parts = re.split(f"({'|'.join(_MARKS)})", expected)
    return re.fullmatch("".join(_MARKS.get(part) or re.escape(part) for part in parts), reply) is not None


def answers(group: CaseGroup, known: dict[str, CaseGroup], version: int) -> list[str]:
    """The replies of a new server to the commands of a group."""
    with running() as server, Wire(server.address[1], version) as wire:
        for name in group.uses:
            for case in known[name].cases:
                reply = _ask(wire, case.command)
                assert not reply.startswith("-"), f"{case.command}: {reply}"
        return [_ask(wire, case.command) for case in group.cases]


def _ask(wire: Wire, command: str) -> str:
    return wire.ask(*shlex.split(command))


def differences(group: CaseGroup, known: dict[str, CaseGroup], version: int) -> list[str]:
    """What is not as a table says, for people."""
    found = []
    for case, reply in zip(group.cases, answers(group, known, version), strict=True):
        expected = case.replies.get(version, "(no reply is written down)")
        if not matches(expected, reply):
            found.append(f"{case.command}\n  expected {expected}\n  got      {reply}")
    return found


def known_groups() -> dict[str, CaseGroup]:
    return {group.name: group for path in sorted(FOLDER.glob("*.txt")) for group in read_groups(path)}


def _fill(path: Path) -> None:
    """Write replies where a file has none."""
    known = known_groups()
    made: dict[str, dict[int, list[str]]] = {}
    for group in read_groups(path):
        if any(set(case.replies) != {2, 3} for case in group.cases):
            made[group.name] = {version: answers(group, known, version) for version in (2, 3)}
    out, group_name, number = [], "", -1
    lines = path.read_text().splitlines()
    for place, line in enumerate(lines):
        out.append(line)
        if line.startswith("# "):
            group_name, number = line[2:], -1
        elif line.startswith("> "):
            number += 1
            following = lines[place + 1] if place + 1 < len(lines) else ""
            if group_name in made and following[:2] not in ("* ", "2 ", "3 "):
                second, third = (_blank(made[group_name][version][number]) for version in (2, 3))
                out += [f"* {second}"] if second == third else [f"2 {second}", f"3 {third}"]
    path.write_text("\n".join(out) + "\n")


def _blank(reply: str) -> str:
    """A reply without what differs each time: ids that the server made begin with the time, those of cases with 5."""
    reply = re.sub(r"\b[67][0-9a-f]{23}\b", "<oid>", reply)
    reply = re.sub(r":[0-9]{16,}\b", ":<int>", reply)
    reply = re.sub(r"(age|idle)=[0-9]+", r"\1=<int>", reply)
    reply = re.sub(r"127\.0\.0\.1:[0-9]+", "127.0.0.1:<int>", reply)
    return re.sub(r'"version"(:|,) "[^"]*"', r'"version"\1 "<any>"', reply)


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        _fill(Path(argument))
