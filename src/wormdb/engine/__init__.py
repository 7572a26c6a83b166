"""What is true, and when: the log, commits, views, the root."""
