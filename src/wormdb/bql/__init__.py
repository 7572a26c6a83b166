"""The query language: filters, sorts, projections and updates as values, pure and without I/O."""
