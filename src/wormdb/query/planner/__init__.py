"""From a request to a plan: candidates, their cost, and plans that are kept."""
