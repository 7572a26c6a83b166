"""Full-text search: words of texts, fields, queries, scores and highlights, pure and without I/O."""
