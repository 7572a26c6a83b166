"""Static keys and the region from the AWS profile files, which obstore does not read.

Only what stands in the files is used: a profile that names a role, single sign-on or a
process is refused with the way to get keys out of it, since guessing would use other rights
than the profile means.
"""

from __future__ import annotations

import configparser
from pathlib import Path
from typing import TYPE_CHECKING

from wormdb.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["profile_settings"]

# Where obstore finds credentials by itself; any of these goes before a profile that nobody named.
_ENVIRONMENT = (
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_SKIP_SIGNATURE",
)
_FIELDS = {
    "aws_access_key_id": "access_key_id",
    "aws_secret_access_key": "secret_access_key",
    "aws_session_token": "session_token",
    "region": "region",
}


def profile_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Settings for obstore from the profile that `environment` names, or from the default one.

    Empty when the environment has credentials itself or there is no profile. Reads up to two
    files; no requests. Raises InvalidRequestError if a named profile has no static keys.
    """
    named = environment.get("AWS_PROFILE")
    if any(environment.get(name) for name in _ENVIRONMENT):
        return {}
    profile = named or "default"
    home = Path(environment.get("HOME") or "~").expanduser()
    keys = Path(environment.get("AWS_SHARED_CREDENTIALS_FILE") or home / ".aws" / "credentials")
    config = Path(environment.get("AWS_CONFIG_FILE") or home / ".aws" / "config")
    section = _section(config, profile if profile == "default" else f"profile {profile}") | _section(keys, profile)
    settings = {ours: section[theirs] for theirs, ours in _FIELDS.items() if section.get(theirs)}
    if {"access_key_id", "secret_access_key"} <= settings.keys():
        return settings
    if named:
        raise InvalidRequestError(
            f"AWS profile {named}",
            reason="it holds no access key of its own" if section else f"it is neither in {keys} nor in {config}",
            fix=f'eval "$(aws configure export-credentials --profile {named} --format env)"',
        )
    return {"region": settings["region"]} if "region" in settings else {}


def _section(path: Path, name: str) -> dict[str, str]:
    parser = configparser.RawConfigParser(default_section="", strict=False)
    try:
        parser.read_string(path.expanduser().read_text())
    except OSError:
        return {}
    except (configparser.Error, UnicodeDecodeError) as error:
        # The parser's message quotes lines of the file, which may be secrets.
        raise InvalidRequestError(
            f"AWS file {path}", reason=f"it cannot be read: {type(error).__name__}", fix="correct the file"
        ) from None
    return dict(parser[name]) if parser.has_section(name) else {}
