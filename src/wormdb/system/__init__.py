"""What the process runs on: time, deadlines, names for plain values, what is installed."""
