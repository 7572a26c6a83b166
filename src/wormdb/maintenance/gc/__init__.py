"""Garbage collection: objects that nothing needs any more."""
