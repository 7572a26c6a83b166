"""Plans carried out over a source: rows, numbers, tables, and how they were found."""
