"""Shipped test tools: contract suites, and stores that fail on purpose."""
