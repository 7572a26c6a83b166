"""Filters made smaller without a change of what they match: one rule a file, their order in `rules`."""
