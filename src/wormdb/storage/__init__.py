"""Bytes by key: the store contract, the stores and their wrappers. Knows nothing of documents."""
