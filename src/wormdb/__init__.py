"""wormdb."""
