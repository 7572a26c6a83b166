"""Verify and repair."""
