"""The `worm` command: one file a verb, each a call into what lies below."""
