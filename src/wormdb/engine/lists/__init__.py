"""Indexes that are lists of documents: by term, or by centroid."""
