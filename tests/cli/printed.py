"""Command lines run in this process, and what they print."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import wormdb
from wormdb.cli.main import run

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["SHOP", "Printed", "captured", "fill", "table", "worm"]

SHOP: dict[str, Any] = {
    "schemaVersion": "1.0",
    "sourceOfTruth": "local",
    "models": {
        "Customer": {
            "path": "#org/@customers/(id:string)",
            "id": "given",
            "fields": {
                "name": {"type": "string"},
                "email": {"type": "string"},
                "status": {"type": "string"},
                "tags": {"type": "array", "items": {"type": "string"}},
            },
            "indexes": {
                "byStatus": {"field": "status"},
                "byEmail": {"field": "email", "unique": True},
                "byTags": {"field": "tags", "type": "multiValue"},
            },
            "manifest": {"enabled": True},
        },
        "Invoice": {
            "path": "#org/@invoices/(id:seq)",
            "fields": {"status": {"type": "string"}, "total": {"type": "integer"}},
        },
        "OrgSettings": {"path": "#org/@settings/[settings].json", "fields": {"theme": {"type": "string"}}},
        "User": {"path": "#org/(tenant:slug)/@users/(id:slug)"},
    },
}


@dataclass(frozen=True)
class Printed:
    """What one command line left behind."""

    code: int
    data: bytes
    errors: str

    @property
    def text(self) -> str:
        return self.data.decode()

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @property
    def timeless(self) -> str:
        """The text with one time for all times, and one duration."""
        text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "2026-02-24T14:30:00Z", self.text)
        return re.sub(r"in \d+\.\ds", "in 12.3s", text)


def worm(*arguments: str) -> Printed:
    """Run one command line."""
    errors = io.StringIO()
    codes: list[int] = []
    with redirect_stderr(errors):
        data = captured(lambda: codes.append(run(arguments)))
    return Printed(codes[0], data, errors.getvalue())


def captured(write: Callable[[], object]) -> bytes:
    """The bytes that a function writes to standard output."""
    out = io.BytesIO()
    text = io.TextIOWrapper(out, encoding="utf-8", newline="", write_through=True)
    with redirect_stdout(text):
        write()
    text.flush()
    return out.getvalue()


def fill(url: str, customers: int = 1_423, *, files: bool = False) -> None:
    """A small shop; with `files` customers have readable files."""
    models = {**SHOP["models"], "Customer": {**SHOP["models"]["Customer"], "files": files}}
    with wormdb.connect(url, schema={**SHOP, "models": models}, apply=True) as database:
        database.model("Customer").insert_many(
            [
                {
                    "id": f"c{number:04}",
                    "name": f"name {number}",
                    "email": f"c{number}@x.org",
                    "status": ("active", "new", "gone")[number % 3],
                    "tags": [f"tag{number % 12}"],
                }
                for number in range(customers)
            ]
        )
        database.model("Invoice").insert_many(
            [{"status": ("open", "paid")[number % 2], "total": number * 100} for number in range(40)]
        )
        database.model("User", tenant="acme").insert({"id": "bob"})
        database["notes"].insert_many([{"id": 1, "text": "hello\nworld"}, {"id": "z", "parts": {"x": [1, 2]}}])


def table(url: str, *arguments: str) -> Printed:
    """What `worm table` prints; it must succeed."""
    done = worm("table", *arguments, "--url", url)
    assert done.code == 0, done.errors
    return done
