"""Ratios taken in one run against a stated reference: `make bench`."""
