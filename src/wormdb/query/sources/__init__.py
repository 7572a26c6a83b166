"""Where documents come from: a view of the engine, or a state of the past."""
