"""Readable files held against the state of their collection."""
