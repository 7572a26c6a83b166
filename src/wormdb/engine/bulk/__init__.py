"""Writes too large for the log: blocks first, one entry at the end."""
