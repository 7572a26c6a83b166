"""The database as applications hold it: `connect`, databases, collections, documents, results."""
