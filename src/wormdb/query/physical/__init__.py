"""Ways to find the rows of a conjunction, each of which proposes candidates: by ids and indexes, or by scans."""
