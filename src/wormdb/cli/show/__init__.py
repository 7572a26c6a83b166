"""What commands print: tables, rows, changes, progress, guarded against control characters."""
