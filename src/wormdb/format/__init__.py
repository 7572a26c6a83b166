"""Bytes from values and back, with no I/O: one persisted kind a module."""
