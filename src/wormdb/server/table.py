"""All commands of the server, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wormdb.server.admin_commands import ADMIN_COMMANDS
from wormdb.server.bucket_commands import DOCUMENT_COMMANDS
from wormdb.server.cluster_commands import CLUSTER_COMMANDS
from wormdb.server.connection_commands import CONNECTION_COMMANDS
from wormdb.server.explain import EXPLAIN_COMMANDS
from wormdb.server.handed import HANDED_COMMANDS
from wormdb.server.index_commands import INDEX_COMMANDS
from wormdb.server.removal_commands import REMOVAL_COMMANDS
from wormdb.server.transaction_commands import TRANSACTION_COMMANDS
from wormdb.server.vector_commands import VECTOR_COMMANDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from wormdb.server.commands import Command

__all__ = ["COMMANDS"]

COMMANDS: Final[Mapping[bytes, Command]] = {
    command.name.encode(): command
    for command in (
        *CONNECTION_COMMANDS,
        *DOCUMENT_COMMANDS,
        *EXPLAIN_COMMANDS,
        *VECTOR_COMMANDS,
        *INDEX_COMMANDS,
        *ADMIN_COMMANDS,
        *REMOVAL_COMMANDS,
        *CLUSTER_COMMANDS,
        *HANDED_COMMANDS,
        *TRANSACTION_COMMANDS,
    )
}
