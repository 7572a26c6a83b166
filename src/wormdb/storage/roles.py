"""Rights in a bucket: three roles, the policy of each for S3, and a way to try a key against its role.

A reader reads and lists. A writer also writes: every change of documents, bringing them forward included, is a PUT.
Only a service deletes: it keeps readable files and collects garbage.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

from wormdb.errors import InvalidRequestError, PermissionDeniedError, WormError
from wormdb.storage.examine import CheckResult, CheckStatus, Examination
from wormdb.storage.store import Always, Store

if TYPE_CHECKING:
    from collections.abc import Callable

    from wormdb.storage.url import StoreUrl
    from wormdb.system.clock import Chance

__all__ = ["ACTIONS", "Role", "examine_role", "s3_policy"]

# One name for all tries: a key that may write but not delete leaves one object behind, not one a try.
PROBE = ".worm.probe/role"


class Role(StrEnum):
    """What a key of the bucket is for."""

    READER = "reader"
    WRITER = "writer"
    SERVICE = "service"


LIST_ACTION = "s3:ListBucket"
ACTIONS: dict[Role, tuple[str, ...]] = {
    Role.READER: ("s3:GetObject",),
    Role.WRITER: ("s3:GetObject", "s3:PutObject", "s3:AbortMultipartUpload"),
    Role.SERVICE: ("s3:GetObject", "s3:PutObject", "s3:AbortMultipartUpload", "s3:DeleteObject"),
}
"""On objects; every role also lists the bucket."""


def s3_policy(role: Role, url: StoreUrl) -> dict[str, Any]:
    """The IAM policy that gives a key the rights of `role` at an s3:// URL, and no others. No requests.

    Listing has no condition on a prefix: with one, S3 says "forbidden" of a missing object instead of "missing",
    and a log could not be read to its end. Raises InvalidRequestError for other stores.
    """
    if url.scheme != "s3":
        raise InvalidRequestError(
            f"policy for {url}", reason="it must be an s3:// URL", fix="see the page on security for Google and Azure"
        )
    bucket = f"arn:aws:s3:::{url.bucket}"
    below = f"{bucket}/{url.prefix}/*" if url.prefix else f"{bucket}/*"
    return {
        "Version": "2012-10-17",
        "Statement": [
            {"Sid": "WormdbList", "Effect": "Allow", "Action": [LIST_ACTION], "Resource": [bucket]},
            {"Sid": "WormdbObjects", "Effect": "Allow", "Action": list(ACTIONS[role]), "Resource": [below]},
        ],
    }


def examine_role(store: Store, role: Role, *, chance: Chance) -> Examination:
    """Try what `role` needs and what it must not have. 1 LIST, 2 GET, 1 PUT, 1 DELETE.

    Errors of the store are findings. A key that may write and not delete leaves the small object `.worm.probe/role`.
    """
    findings = [_list_right(store), _missing_is_told(store, chance), _read_right(store)]
    may_write, may_delete = role is not Role.READER, role is Role.SERVICE
    put = _tried(lambda: store.put(PROBE, chance.token(8), Always(), content_type="text/plain"))
    delete = _tried(lambda: store.delete(PROBE))
    findings.append(_compared("write", role, put, wanted=may_write, action="s3:PutObject"))
    findings.append(_compared("delete", role, delete, wanted=may_delete, action="s3:DeleteObject"))
    return Examination(store.name, tuple(findings), role.value)


def _tried(call: Callable[[], object]) -> WormError | None:
    try:
        call()
    except WormError as error:
        return error
    return None


def _said(error: WormError) -> str:
    return f"{error.what}: {error.reason}" if error.reason else error.what


def _list_right(store: Store) -> CheckResult:
    error = _tried(lambda: next(iter(store.list(delimiter="/")), None))
    if error is None:
        return CheckResult("list", CheckStatus.OK, "allowed, as it should be")
    return CheckResult("list", CheckStatus.FAIL, _said(error), f"allow {LIST_ACTION} on the bucket")


def _missing_is_told(store: Store, chance: Chance) -> CheckResult:
    name = "missing object"
    error = _tried(lambda: store.probe(f".worm.probe/{chance.token(8).hex()}"))
    if error is None:
        return CheckResult(name, CheckStatus.OK, "told as missing")
    fix = f"allow s3:GetObject below the prefix, and {LIST_ACTION} on the bucket without a condition on the prefix"
    return CheckResult(name, CheckStatus.FAIL, _said(error), fix)


def _read_right(store: Store) -> CheckResult:
    try:
        found = next((entry.key for page in store.list() for entry in page.objects), None)
        if found is None:
            return CheckResult("read", CheckStatus.SKIP, "there is no object yet")
        store.head(found)
    except WormError as error:
        return CheckResult("read", CheckStatus.FAIL, _said(error), "allow s3:GetObject below the prefix")
    return CheckResult("read", CheckStatus.OK, "allowed, as it should be")


def _compared(name: str, role: Role, error: WormError | None, *, wanted: bool, action: str) -> CheckResult:
    if error is not None and not isinstance(error, PermissionDeniedError):
        return CheckResult(name, CheckStatus.FAIL, _said(error), error.fix)
    if (error is None) == wanted:
        return CheckResult(name, CheckStatus.OK, "allowed, as it should be" if wanted else "refused, as it should be")
    if wanted:
        return CheckResult(
            name, CheckStatus.FAIL, f"refused, and a {role} needs it", f"allow {action} below the prefix"
        )
    return CheckResult(name, CheckStatus.FAIL, f"allowed, and a {role} must not", f"take {action} from this key")
