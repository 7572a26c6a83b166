"""Ways to find the rows of a conjunction: one file a way, each proposes candidates."""
