"""Stores in S3, GCS and Azure: obstore, and requests whose answers we see whole."""
