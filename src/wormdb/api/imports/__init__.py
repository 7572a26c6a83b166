"""Imports: records become documents, all of them by one entry of the log or none."""
