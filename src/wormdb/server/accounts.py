"""Who may do what: accounts with hashed passwords and rights by namespace, from a file.

    {"users": {"shop": {"password": "$argon2id$…", "namespaces": {"shop": "rw", "shop.*": "rw", "global": "r"}},
               "ops": {"password": "$argon2id$…", "namespaces": {"*": "rw"}, "admin": true}}}

`shop` is one namespace, `shop.*` all below it, `*` all there are. Passwords are never kept, shown or logged.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from wormdb.errors import InvalidRequestError, MissingExtraError
from wormdb.system.waiting import check_waiting

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["EVERYTHING_ALLOWED", "Account", "Accounts", "hash_password"]

Right = Literal["r", "rw"]
_FILE_BYTES_MAX: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Account:
    """One user, and what it may do."""

    name: str
    namespaces: Mapping[str, Right] = field(default_factory=dict)
    is_admin: bool = False
    """Whether it sees other connections."""

    def may(self, namespace: str, *, write: bool) -> bool:
        """Whether it may read a namespace, or write to it. The narrowest rule counts."""
        parts = namespace.split(".")
        rules = [namespace, *(".".join([*parts[:depth], "*"]) for depth in range(len(parts) - 1, -1, -1))]
        right = next((self.namespaces[rule] for rule in rules if rule in self.namespaces), None)
        return right == "rw" or (right == "r" and not write)


EVERYTHING_ALLOWED: Final = Account("default", {"*": "rw"}, is_admin=True)


class _StoredAccount(msgspec.Struct, forbid_unknown_fields=True):
    password: str
    namespaces: dict[str, Right]
    admin: bool = False


class _AccountFile(msgspec.Struct, forbid_unknown_fields=True):
    users: dict[str, _StoredAccount]


class Accounts:
    """The users of a server. Thread-safe: it does not change."""

    def __init__(self, stored: Mapping[str, _StoredAccount]) -> None:
        """Made by `read`. Raises MissingExtraError."""
        self._stored = stored
        self._hasher = _hasher()
        self._nobody = self._hasher.hash("")

    @classmethod
    def read(cls, path: Path) -> Accounts:
        """The users of a file. Raises InvalidRequestError, MissingExtraError."""
        try:
            with path.open("rb") as file:
                found = msgspec.json.decode(file.read(_FILE_BYTES_MAX), type=_AccountFile)
        except (OSError, msgspec.MsgspecError) as error:
            raise InvalidRequestError(
                f"users of {path.name}", reason=str(error), fix='write {"users": {"name": {"password": …}}}'
            ) from error
        for name, stored in found.users.items():
            if not stored.password.startswith("$argon2"):
                raise InvalidRequestError(
                    f"user {name} of {path.name}",
                    reason="its password is not a hash of argon2",
                    fix="make one with worm serve --hash-password",
                )
        return cls(found.users)

    def check(self, name: str, password: str) -> Account | None:
        """The account of a user, if this is its password. Takes about as long for users that there are not."""
        check_waiting("the hash of a password")
        stored = self._stored.get(name)
        try:
            self._hasher.verify(self._nobody if stored is None else stored.password, password)
        except Exception:  # noqa: BLE001 - whatever is wrong with it, it is not the password
            return None
        return None if stored is None else Account(name, stored.namespaces, stored.admin)


def hash_password(password: str) -> str:
    """What a file of users has for a password. Raises MissingExtraError."""
    found: str = _hasher().hash(password)
    return found


def _hasher() -> Any:
    try:
        from argon2 import PasswordHasher
    except ImportError as error:
        raise MissingExtraError(
            "passwords", reason="argon2-cffi is not installed", fix="pip install 'wormdb[server]'"
        ) from error
    return PasswordHasher()
