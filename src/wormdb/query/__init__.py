"""Planning and execution of queries over a source: the engine, or anything else that has documents."""
