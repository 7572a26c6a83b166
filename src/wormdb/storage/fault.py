"""What obstore's errors say, read from their kind and from the structured part of their text.

obstore raises one class for most failures and puts status, error code and the stage of the
failure into the text. Only the part that its own debug printer writes is read, whose strings are
escaped and on one line, so neither a key nor a server's answer can imitate it. The text itself
goes no further: it holds whole answers of the store.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from wormdb.errors import InvalidRequestError, PermissionDeniedError, WormError
from wormdb.storage.cloud.verdict import Verdict, error_code, judge, read_error, unreached, write_error

if TYPE_CHECKING:
    from wormdb.storage.store import Precondition
    from wormdb.storage.url import StoreUrl

__all__ = ["OUT_OF_TIME", "Fault", "FaultKind", "fault_on_read", "fault_on_write", "parse_fault", "verdict_of"]

_STATUS = re.compile(r"^ +status: (\d{3}),$", flags=re.MULTILINE)
_STAGE = re.compile(r"HttpError \{\n +kind: (\w+),$", flags=re.MULTILINE)
_BODY = re.compile(r'^ +body: Some\(\n +"(.*)",$', flags=re.MULTILINE)
_MISDIRECTED = re.compile(r"^ +inner: BareRedirect,$", flags=re.MULTILINE)
_METADATA = re.compile(
    r"^ +http://(169\.254\.169\.254|169\.254\.170\.2|\[fd00:ec2::254\]|metadata\.google\.internal|metadata)[:/]",
    flags=re.MULTILINE,
)
# One key of a bulk delete was refused: the answer as a whole was a success, so there is no status.
_UNDELETED = re.compile(r'^ +source: DeleteFailed \{\n +path: ".*",\n +code: "(\w+)",$', flags=re.MULTILINE)
_PATH = re.compile(r'^ +path: "(.*)",$', flags=re.MULTILINE)


class FaultKind(Enum):
    """The class of obstore's error."""

    MISSING = auto()
    DENIED = auto()
    EXISTS = auto()
    PRECONDITION = auto()
    BAD_PATH = auto()
    OTHER = auto()


@dataclass(frozen=True, slots=True)
class Fault:
    """One failure of obstore: its kind and, where its text shows them, status, code and stage."""

    kind: FaultKind
    status: int | None
    code: str
    stage: str
    """`Connect`, `Timeout`, `Request`, `Decode` …, or nothing when the server answered."""
    of_credentials: bool
    """It was the service that gives credentials to machines which failed, not the store."""
    misdirected: bool
    """The server pointed elsewhere without saying where: the region is wrong."""
    path: str

    @property
    def detail(self) -> str:
        """A few words for messages; no URL and no body."""
        if self.status is not None:
            return f"status {self.status}" + (f", {self.code}" if self.code else "")
        if self.misdirected:
            return "it redirected the request"
        if self.code:
            return self.code
        return {
            "Connect": "no connection",
            "Timeout": "it timed out",
            "OutOfTime": "no answer came in the time of the call",
            "Request": "the connection broke",
            "Interrupted": "the connection broke",
            "Decode": "the answer was cut short",
        }.get(self.stage, "the client library failed")


OUT_OF_TIME: Final = Fault(
    kind=FaultKind.OTHER, status=None, code="", stage="OutOfTime", of_credentials=False, misdirected=False, path=""
)
"""The time of the call was over before an answer came: anything may have happened."""


def parse_fault(kind: FaultKind, text: str) -> Fault:
    """Read an error's text."""
    structured = text.rpartition("\nDebug source:\n")[2]
    status, stage, body, path = (pattern.search(structured) for pattern in (_STATUS, _STAGE, _BODY, _PATH))
    code = error_code(body[1].encode()) if body else ""
    if undeleted := _UNDELETED.search(structured):
        code = undeleted[1]
        kind = FaultKind.DENIED if code == "AccessDenied" else kind
    return Fault(
        kind=kind,
        status=int(status[1]) if status else None,
        code=code,
        stage=stage[1] if stage else "",
        of_credentials=_METADATA.search(structured) is not None,
        misdirected=_MISDIRECTED.search(structured) is not None,
        path=path[1] if path else "",
    )


def verdict_of(url: StoreUrl, method: str, fault: Fault) -> Verdict:
    """What the store decided about a `method` request that failed. No requests."""
    if fault.status is not None:
        return judge(url.scheme, method, fault.status, fault.code)
    if fault.misdirected:
        return Verdict.ELSEWHERE
    if fault.kind is FaultKind.MISSING:
        return judge(url.scheme, method, 404, fault.code)
    return {
        FaultKind.DENIED: Verdict.DENIED,
        FaultKind.EXISTS: Verdict.LOST,
        FaultKind.PRECONDITION: Verdict.LOST,
    }.get(fault.kind, Verdict.UNKNOWN)


def fault_on_read(url: StoreUrl, key: str | None, fault: Fault) -> WormError:
    """The error for a request that has no effect, or whose repetition has none. `key` is None for a listing."""
    if fault.of_credentials:
        return _no_credentials(url)
    if fault.kind is FaultKind.BAD_PATH:
        return InvalidRequestError(
            f"listing of {url}",
            reason=f"an object there has the key {fault.path!r}, which wormdb cannot address",
            fix="move or delete that object with the tool that wrote it, or use a prefix of its own for wormdb",
            key=fault.path,
        )
    if fault.stage == "Connect":
        return unreached(url, key, fault.detail)
    verdict = verdict_of(url, "GET", fault)
    if verdict is Verdict.MISSING and key is None:
        verdict = Verdict.NO_BUCKET
    if verdict is Verdict.LOST:
        verdict = Verdict.UNKNOWN  # nothing was conditional
    return read_error(url, key, verdict, fault.detail)


def fault_on_write(url: StoreUrl, key: str, precondition: Precondition, fault: Fault) -> WormError:
    """The error for a PUT; what is neither a clean refusal nor a failed connection is OutcomeUnknownError."""
    if fault.of_credentials:
        return _no_credentials(url)
    if fault.stage == "Connect":
        return unreached(url, key, fault.detail)
    return write_error(url, key, precondition, verdict_of(url, "PUT", fault), fault.detail)


def _no_credentials(url: StoreUrl) -> WormError:
    from wormdb.storage.url import CREDENTIALS_FIX

    return PermissionDeniedError(
        f"credentials for {url}",
        reason="the environment has none, and no machine identity answered",
        fix=CREDENTIALS_FIX[url.scheme],
    )
