"""Nodes: processes that look after a database, each with an id, taking turns."""

from wormdb.jobs.node.node import Node
from wormdb.jobs.node.pace import Pace

__all__ = ["Node", "Pace"]
