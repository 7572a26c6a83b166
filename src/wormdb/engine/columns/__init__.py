"""Scans that read single columns of blocks."""
