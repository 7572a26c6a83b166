"""What a command line says: which database, which documents, which question, where it runs."""
