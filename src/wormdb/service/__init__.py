"""Services: processes that look after a database, each a node with an id, taking turns."""

from wormdb.service.node import Node
from wormdb.service.pace import Pace

__all__ = ["Node", "Pace"]
