"""Looking after what is stored: verify, repair."""
