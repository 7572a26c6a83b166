"""How a batch becomes visible: what a process knows, validation, groups, turns, unknown outcomes."""
