"""One script of operations, and the whole tree of readable files that it leaves, in each layout.

`python -m tests.files.golden_bucket` writes the expected trees; look at every difference before you keep it.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import wormdb
from wormdb.engine.log.paths import ENGINE_FOLDER
from wormdb.errors import UniqueViolationError
from wormdb.settings import Settings
from wormdb.storage.open import open_store
from wormdb.system.clock import ManualClock, SeededChance

__all__ = ["GOLDEN", "LAYOUTS", "golden_tree", "play"]

GOLDEN = Path(__file__).parent / "golden"
LAYOUTS: dict[str, dict[str, str]] = {
    "inline": {"layout": "inline"},
    "collection": {"layout": "collection"},
    "root": {"layout": "root"},
    "mix": {"layout": "root", "snapshots": "inline", "trash": "collection"},
}
_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d):\d\d(?:\.\d+)?Z")
_CHECKSUM = re.compile("sha256:[0-9a-f]{64}")
_OWN = (".worm.names/", ".worm.schema.json", ".worm.probe")


def _schema(storage: dict[str, str]) -> dict[str, Any]:
    customer = {
        "path": "#org/@customers/(id:string)/[profile].json",
        "oplog": True,
        "softDelete": {"enabled": True, "ttl": 30},
        "snapshots": {"enabled": True, "every": 3, "maxCount": 2},
        "fields": {
            "name": {"type": "string", "required": True},
            "email": {"type": "string"},
            "status": {"type": "string"},
            "tags": {"type": "array"},
            "born": {"type": "datetime"},
        },
        "manifest": {"enabled": True, "fields": ["name", "email", "status", "tags"]},
        "indexes": {
            "byStatus": {"field": "status"},
            "byEmail": {"field": "email", "unique": True},
            "byTags": {"field": "tags", "type": "multiValue"},
            "byStatusAndName": {"fields": ["status", "name"]},
        },
    }
    invoice = {
        "path": "#org/@invoices/(id:string)/[data].json",
        "fields": {"amount": {"type": "number"}},
        "manifest": {"enabled": True, "partitionThreshold": 3, "maxPartitions": 2},
        "indexes": {"byAmount": {"field": "amount"}},
    }
    return {
        "schemaVersion": "1.0",
        "sourceOfTruth": "remote",
        "storage": storage,
        "models": {"Customer": customer, "Invoice": invoice},
    }


def play(url: str, layout: str) -> None:
    """Do a little of everything, and let the files follow now and then."""
    clock = ManualClock(1_771_934_400_000)
    settings = Settings(forward="manual", forward_interval_ms=0)
    options: dict[str, Any] = {"settings": settings, "clock": clock, "chance": SeededChance(1), "actor": "user:ada"}
    with wormdb.connect(url, schema=_schema(LAYOUTS[layout]), **options) as database:
        customers, invoices = database.model("Customer"), database.model("Invoice")

        def later() -> None:
            clock.advance(60)

        customers.insert(
            {"id": "acme", "name": "Acme Corp", "email": "hi@acme.com", "status": "active", "tags": ["vip"]}
        )
        later()
        born = datetime(1980, 5, 17, 8, 30, tzinfo=UTC)
        customers.insert({"id": "bo", "name": "Bo", "status": "active", "tags": ["vip", "new"], "born": born})
        customers.insert({"id": "cy", "name": "Cy", "email": "cy@x.com", "note": "kept"})
        customers.forward()
        later()
        customers.save({"id": "acme", "name": "Acme Inc", "email": "hi@acme.com", "status": "active", "tags": []})
        later()
        customers.save({"id": "acme", "name": "Acme Inc", "email": "hi@acme.com", "status": "churned"}, actor="api:x")
        customers.delete("bo")
        customers.delete("cy", metadata={"ticket": 7})
        customers.forward()
        later()
        customers.restore("bo")
        customers.purge("cy")
        later()
        customers.rollback("acme", to_seq=1)
        customers.snapshot("acme")
        try:
            customers.insert({"id": "di", "name": "Di", "email": "hi@acme.com"})
        except UniqueViolationError:
            customers.insert({"id": "di", "name": "Di", "email": "di@x.com", "status": "5"})
        customers.delete("di")
        customers.forward()
        invoices.insert_many([{"id": f"inv-{number}", "amount": number * 10} for number in range(1, 6)])
        invoices.forward()


def golden_tree(url: str) -> dict[str, Any]:
    """Every readable file at a place, as JSON, with times to the minute."""
    with open_store(url) as store:
        keys = [found.key for page in store.list() for found in page.objects]
        kept = [key for key in keys if ENGINE_FOLDER not in key and not key.startswith(_OWN)]
        tree = {_to_the_minute(key): json.loads(_to_the_minute(store.get(key).body.decode())) for key in sorted(kept)}
    tree[".worm"]["bucket"] = "<bucket>"
    return tree


def _to_the_minute(text: str) -> str:
    """Without what differs from run to run: waiting takes a moment, and checksums are over times too."""
    return _CHECKSUM.sub("sha256:…", _TIME.sub(r"\1Z", text))


def main() -> None:
    """Write what today's code writes."""
    for layout in LAYOUTS:
        url = f"memory://golden-{layout}"
        play(url, layout)
        text = json.dumps(golden_tree(url), indent=1, ensure_ascii=False)
        (GOLDEN / f"{layout}.json").write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
