"""`readStream` and `writeStream`: the change feed of a collection as rows, and rows as changes."""
