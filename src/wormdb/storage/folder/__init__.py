"""A store in a folder of a local disk."""
