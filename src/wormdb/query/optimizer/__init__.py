"""Rules that make a plan cheaper and never another answer: one file a rule."""
