"""The indexes of a collection: built, brought forward, read, and held unique."""
