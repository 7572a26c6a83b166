"""Indexes without a collection: what they hold of a document, and the copy-on-write trees that hold it."""
