"""Blocks of documents: written, listed as runs, looked up, kept unpacked."""
