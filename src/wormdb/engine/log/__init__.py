"""The log and the root: the objects that make a write visible, their keys and their clock."""
