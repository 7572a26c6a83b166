"""Updates: operators as people write them, read into a tree of paths, and applied to documents."""
