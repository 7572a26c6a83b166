"""What is below everything: time and randomness by argument, deadlines, numbers with names, optional packages."""

PUBLIC = {
    "clock": "time, sleep and randomness",
    "deadline": "how long a call may take, and locks that know it",
    "forks": "locks that a fork waits for",
    "installed": "the version, and optional packages",
    "tracing": "the tracer that calls and requests tell of themselves",
    "types": "numbers and ids with types of their own",
    "waiting": "threads that must not wait",
}
