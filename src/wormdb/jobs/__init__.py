"""Jobs over whole collections, planned as pieces of work that run in this process or on Spark with the same results."""
