"""What an answer of a cloud store means, by its own error code first and its status second.

One status means different things on different stores (409 is "try again" on S3 and "you lost" on
Azure), and one meaning has several codes. Whatever is not in the tables is unknown: a write that
may have happened is never called a write that did not.

A 404 is believed only with the store's own code for it. Ingresses, load balancers and default pages
say 404 too, of everything, and a reader that believed them would see an empty database.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from typing import TYPE_CHECKING, Final

from wormdb.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidRequestError,
    NotFoundError,
    OutcomeUnknownError,
    PermissionDeniedError,
    UnavailableError,
    UnsupportedStoreError,
    WormError,
)
from wormdb.storage.store import Always, IfAbsent, IfMatch, Precondition

if TYPE_CHECKING:
    from wormdb.storage.url import StoreUrl

__all__ = [
    "OUT_OF_TIME",
    "FaultKind",
    "ObstoreFault",
    "Verdict",
    "error_code",
    "fault_on_read",
    "fault_on_write",
    "judge",
    "parse_fault",
    "read_error",
    "unreached",
    "verdict_of",
    "write_error",
]


class Verdict(StrEnum):
    """What the store decided about a request."""

    OK = "ok"
    LOST = "lost"
    """The precondition did not hold."""
    MISSING = "missing"
    BEYOND = "beyond the end"
    """The range that was asked for begins where the object has ended."""
    NO_BUCKET = "no bucket"
    CONFLICT_RETRY = "conflict, retry"
    """Several writers met, and nothing was decided about this one."""
    THROTTLED = "throttled"
    DENIED = "denied"
    ELSEWHERE = "elsewhere"
    """The bucket is in another region."""
    UNSUPPORTED = "unsupported"
    REFUSED = "refused"
    """The request is wrong in itself."""
    STRANGER = "stranger"
    """A 404 without a code of the store: something before it answered."""
    UNKNOWN = "unknown"


_S3_CODES = {
    Verdict.LOST: "PreconditionFailed",
    Verdict.MISSING: "NoSuchKey",
    Verdict.BEYOND: "InvalidRange",
    Verdict.NO_BUCKET: "NoSuchBucket",
    Verdict.CONFLICT_RETRY: "ConditionalRequestConflict OperationAborted RequestTimeout",
    Verdict.THROTTLED: "SlowDown SlowDownRead SlowDownWrite ServiceUnavailable Throttling ThrottlingException "
    "TooManyRequests RequestLimitExceeded BandwidthLimitExceeded ServerBusy",
    Verdict.DENIED: "AccessDenied AllAccessDisabled AccountProblem ExpiredToken InvalidAccessKeyId InvalidToken "
    "InvalidSecurity NotSignedUp RequestTimeTooSkewed SignatureDoesNotMatch TokenRefreshRequired",
    Verdict.ELSEWHERE: "PermanentRedirect AuthorizationHeaderMalformed IllegalLocationConstraintException",
    Verdict.UNSUPPORTED: "NotImplemented",
}
_AZURE_CODES = {
    Verdict.LOST: "BlobAlreadyExists ConditionNotMet TargetConditionNotMet",
    Verdict.MISSING: "BlobNotFound ResourceNotFound",
    Verdict.BEYOND: "InvalidRange",
    Verdict.NO_BUCKET: "ContainerNotFound ContainerBeingDeleted ContainerDisabled",
    Verdict.THROTTLED: "ServerBusy",
    Verdict.DENIED: "AccountIsDisabled AuthenticationFailed AuthorizationFailure AuthorizationPermissionMismatch "
    "BlobImmutableDueToPolicy InsufficientAccountPermissions InvalidAuthenticationInfo LeaseIdMissing",
}
_CODES = {
    scheme: {code: verdict for verdict, codes in table.items() for code in codes.split()}
    for scheme, table in (("s3", _S3_CODES), ("az", _AZURE_CODES), ("gs", _S3_CODES))
}
_STATUSES = {
    304: Verdict.LOST,  # an old MinIO's word for a failed precondition
    401: Verdict.DENIED,
    403: Verdict.DENIED,
    404: Verdict.STRANGER,
    408: Verdict.UNKNOWN,
    409: Verdict.UNKNOWN,
    412: Verdict.LOST,
    416: Verdict.UNKNOWN,
    429: Verdict.THROTTLED,
    501: Verdict.UNSUPPORTED,
}
# Only these are believed of a server in trouble.
_SERVER_REFUSALS = {(503, Verdict.THROTTLED), (501, Verdict.UNSUPPORTED)}
# An object is absent, or over, only where status and code agree.
_ONLY_WITH = {Verdict.MISSING: 404, Verdict.BEYOND: 416}
_SUCCESSES = {("s3", "PUT"): 200, ("az", "PUT"): 201, ("gs", "PUT"): 200, ("az", "DELETE"): 202}

_XML_CODE = re.compile(rb"<Code>([A-Za-z0-9_.-]{1,80})</Code>")
_FIRST_BYTES = 2048

_BUCKET_WORD = {"s3": "bucket", "gs": "bucket", "az": "container"}


def error_code(body: bytes) -> str:
    """The error code in an XML body, or nothing."""
    found = _XML_CODE.search(body[:_FIRST_BYTES])
    return found[1].decode() if found else ""


def judge(scheme: str, method: str, status: int, code: str = "") -> Verdict:
    """What `status` and the store's error `code` mean for a `method` request."""
    if status == _SUCCESSES.get((scheme, method), 200):
        return Verdict.OK
    by_code = _CODES[scheme].get(code)
    if by_code in _ONLY_WITH and _ONLY_WITH[by_code] != status:
        by_code = None
    if by_code is not None and (300 <= status < 500 or (status, by_code) in _SERVER_REFUSALS):
        return by_code
    if status in _STATUSES:
        return _STATUSES[status]
    return Verdict.REFUSED if 400 <= status < 500 else Verdict.UNKNOWN


def read_error(url: StoreUrl, key: str | None, verdict: Verdict, detail: str) -> WormError:
    """The error for a request without effect. `detail` is a status and code, never a URL."""
    what = f"object {key}" if key is not None else "listing"
    if verdict is Verdict.MISSING and key is not None:
        return NotFoundError(what, reason=f"it is not in {url}", key=key)
    if verdict is Verdict.STRANGER:
        return UnavailableError(
            what,
            reason=f"{detail} came from {url} without the error code of a store: something else answered",
            fix="look at what is between here and the store (ingress, load balancer, proxy, endpoint), then retry",
            key=key,
        )
    return _common_error(url, what, key, verdict, detail) or UnavailableError(
        what, reason=f"{url} did not serve it: {detail}", key=key
    )


def unreached(url: StoreUrl, key: str | None, detail: str) -> UnavailableError:
    """The error for a request that never left: nothing was done."""
    fix = "check the endpoint and the network, then retry"
    if "CERTIFICATE" in detail:
        fix = "check the endpoint; for an authority of your own set SSL_CERT_FILE to its certificate"
    what = "listing" if key is None else f"object {key}"
    return UnavailableError(what, reason=f"{url} was not reached: {detail}", key=key, fix=fix)


def write_error(url: StoreUrl, key: str, precondition: Precondition, verdict: Verdict, detail: str) -> WormError:
    """The error for a PUT that was not a clean success."""
    what = f"object {key}"
    match verdict, precondition:
        case (Verdict.LOST, IfAbsent()):
            return AlreadyExistsError(what, reason="it is there already", key=key)
        case (Verdict.LOST, IfMatch()):
            return ConflictError(what, reason="another version is there", key=key)
        case (Verdict.MISSING, IfMatch()):
            return ConflictError(what, reason="it is not there any more", key=key)
        case (Verdict.MISSING, Always() | IfAbsent()):
            verdict = Verdict.NO_BUCKET  # only the place can be missing
        case (Verdict.CONFLICT_RETRY | Verdict.THROTTLED, _):
            return UnavailableError(what, reason=f"{url} did nothing: {detail}", key=key)
    return _common_error(url, what, key, verdict, detail) or OutcomeUnknownError(
        what, reason=f"no clear answer came from {url}: {detail}", key=key
    )


def _common_error(url: StoreUrl, what: str, key: str | None, verdict: Verdict, detail: str) -> WormError | None:
    """Errors that mean the same for reading and writing."""
    word = _BUCKET_WORD[url.scheme]
    match verdict:
        case Verdict.NO_BUCKET:
            return NotFoundError(
                f"{word} {url.bucket}",
                reason="it does not exist" + (f" at {url.endpoint}" if url.endpoint else ""),
                fix=f"create it, or check the {word} and the endpoint in the store URL",
            )
        case Verdict.DENIED:
            return PermissionDeniedError(what, reason=f"{url} refused: {detail}", key=key, fix=_denied_fix(detail))
        case Verdict.ELSEWHERE:
            return InvalidRequestError(
                f"{word} {url.bucket}",
                reason=f"it is in another region than {url.region or 'us-east-1'}: {detail}",
                fix="add ?region=… to the store URL, or set AWS_REGION",
            )
        case Verdict.UNSUPPORTED:
            return UnsupportedStoreError(what, reason=f"{url} does not know this request: {detail}", key=key)
        case Verdict.REFUSED:
            return InvalidRequestError(what, reason=f"{url} refused the request: {detail}", key=key)
        case _:
            return None


def _denied_fix(detail: str) -> str:
    if "TimeTooSkewed" in detail:
        return "set this machine's clock"
    if "SignatureDoesNotMatch" in detail or "InvalidAccessKeyId" in detail:
        return "check the access key and the secret key in the environment or the profile"
    if "Expired" in detail or "InvalidToken" in detail:
        return "renew the session: its token has expired"
    return ""


# --- What obstore's errors say, read from their kind and from the structured part of their text.
#
# obstore raises one class for most failures and puts status, error code and the stage of the
# failure into the text. Only the part that its own debug printer writes is read, whose strings are
# escaped and on one line, so neither a key nor a server's answer can imitate it. The text itself
# goes no further: it holds whole answers of the store.

_STATUS = re.compile(r"^ +status: (\d{3}),$", flags=re.MULTILINE)
_STAGE = re.compile(r"HttpError \{\n +kind: (\w+),$", flags=re.MULTILINE)
_BODY = re.compile(r'^ +body: Some\(\n +"(.*)",$', flags=re.MULTILINE)
_MISDIRECTED = re.compile(r"^ +inner: BareRedirect,$", flags=re.MULTILINE)
_METADATA = re.compile(
    r"^ +http://(169\.254\.169\.254|169\.254\.170\.2|\[fd00:ec2::254\]|metadata\.google\.internal|metadata)[:/]",
    flags=re.MULTILINE,
)
# One key of a bulk delete was refused: the answer as a whole was a success, so there is no status.
# A part of Azure's answer to many deletions at once: the library tells its status, and not its code.
_NO_BLOB = re.compile(r'\bDeleteFailed \{\s*path: "(?:[^"\\]|\\.)*",\s*code: "404"')
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
class ObstoreFault:
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


OUT_OF_TIME: Final = ObstoreFault(
    kind=FaultKind.OTHER, status=None, code="", stage="OutOfTime", of_credentials=False, misdirected=False, path=""
)
"""The time of the call was over before an answer came: anything may have happened."""


def parse_fault(kind: FaultKind, text: str) -> ObstoreFault:
    """Read an error's text."""
    structured = text.rpartition("\nDebug source:\n")[2]
    status, stage, body, path = (pattern.search(structured) for pattern in (_STATUS, _STAGE, _BODY, _PATH))
    code = error_code(body[1].encode()) if body else ""
    if undeleted := _UNDELETED.search(structured):
        code = undeleted[1]
        kind = FaultKind.DENIED if code == "AccessDenied" else kind
    if _NO_BLOB.search(structured):
        code = "BlobNotFound"
    return ObstoreFault(
        kind=kind,
        status=int(status[1]) if status else None,
        code=code,
        stage=stage[1] if stage else "",
        of_credentials=_METADATA.search(structured) is not None,
        misdirected=_MISDIRECTED.search(structured) is not None,
        path=path[1] if path else "",
    )


def verdict_of(url: StoreUrl, method: str, fault: ObstoreFault) -> Verdict:
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


def fault_on_read(url: StoreUrl, key: str | None, fault: ObstoreFault) -> WormError:
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


def fault_on_write(url: StoreUrl, key: str, precondition: Precondition, fault: ObstoreFault) -> WormError:
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
