"""The `worm` command: one file a verb, each a call into what lies below. No other package imports it."""

PUBLIC: dict[str, str] = {}
