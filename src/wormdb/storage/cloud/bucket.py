"""What a bucket does by itself to our objects: rules that delete or move them, versions that stay."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from wormdb.errors import WormError
from wormdb.settings import MIB
from wormdb.storage.cloud.store import CloudStore
from wormdb.storage.examine import CheckResult, CheckStatus
from wormdb.storage.url import parse_url

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wormdb.storage.store import Store

__all__ = ["bucket_findings"]

# An object in one of these cannot be read before it is restored, which takes hours.
ARCHIVES = ("GLACIER", "DEEP_ARCHIVE")


def bucket_findings(store: Store) -> list[CheckResult]:
    """Lifecycle rules and versioning as far as the bucket shows them; none for other stores. 2 GETs.

    What it does not show is a skipped check. Errors of the store are findings.
    """
    if not isinstance(store, CloudStore) or not store.name.startswith("s3://"):
        return []
    return [_lifecycle(store), _versioning(store)]


def _lifecycle(store: CloudStore) -> CheckResult:
    name = "lifecycle rules"
    rules = _asked(store, name, "lifecycle")
    if isinstance(rules, CheckResult):
        return rules
    prefix = parse_url(store.name).prefix
    ours = f"{prefix}/" if prefix else ""
    problems = [problem for rule in _each(rules, "Rule") for problem in _problems(rule, ours)]
    if problems:
        fix = "narrow the rule to other prefixes; wormdb removes what it no longer needs by itself (worm gc)"
        return CheckResult(name, CheckStatus.FAIL, "; ".join(problems), fix)
    return CheckResult(name, CheckStatus.OK, "none touches objects of this database")


def _problems(rule: ET.Element, ours: str) -> Iterator[str]:
    theirs = next((element.text or "" for element in _each(rule, "Prefix")), "")
    if _text(rule, "Status") != "Enabled" or not (theirs.startswith(ours) or ours.startswith(theirs)):
        return
    name = f"rule {_text(rule, 'ID') or '(without a name)'}"
    for child in rule:
        kind, storage = _tag(child), _text(child, "StorageClass")
        if kind == "Expiration" and (_text(child, "Days") or _text(child, "Date")):
            yield f"{name} deletes objects of this database"
        if kind == "Transition" and storage in ARCHIVES:
            yield f"{name} moves objects of this database to {storage}, where they cannot be read"


def _versioning(store: CloudStore) -> CheckResult:
    name = "versioning"
    answer = _asked(store, name, "versioning")
    if isinstance(answer, CheckResult):
        return answer
    if _text(answer, "Status") == "Enabled":
        detail = "on: what is replaced or deleted stays, and is paid for"
        return CheckResult(
            name, CheckStatus.WARN, detail, "add a lifecycle rule that ends noncurrent versions after some days"
        )
    return CheckResult(name, CheckStatus.OK, "off: what gc deletes is gone")


def _asked(store: CloudStore, name: str, setting: str) -> ET.Element | CheckResult:
    try:
        answer = store.bucket_setting("lifecycle" if setting == "lifecycle" else "versioning")
    except WormError as error:
        return CheckResult(name, CheckStatus.SKIP, f"not known: {error.reason}")
    if answer is None:
        return CheckResult(name, CheckStatus.SKIP, "there are none, or this key may not see them")
    # No answer of a store has a DOCTYPE; one that has could make the parser work without end.
    if len(answer) > MIB or b"<!" in answer:
        return CheckResult(name, CheckStatus.SKIP, "not known: the answer is not a setting")
    try:
        return ET.fromstring(answer)  # noqa: S314 - see above
    except ET.ParseError:
        return CheckResult(name, CheckStatus.SKIP, "not known: the answer is not a setting")


def _tag(element: ET.Element) -> str:
    """Without the namespace, which not every store writes."""
    return element.tag.rpartition("}")[2]


def _each(element: ET.Element, tag: str) -> Iterator[ET.Element]:
    return (child for child in element.iter() if _tag(child) == tag)


def _text(element: ET.Element, tag: str) -> str:
    return next(((child.text or "").strip() for child in element if _tag(child) == tag), "")
