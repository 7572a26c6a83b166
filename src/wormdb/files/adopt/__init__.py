"""Files of other programs become a managed collection."""
