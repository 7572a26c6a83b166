"""Filters, orders and aggregations over Arrow columns: exactly what `bql` says of the documents."""
