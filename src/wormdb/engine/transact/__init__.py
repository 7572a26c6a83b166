"""Transactions over several collections: prepared in each log, decided by one record, finished by any writer."""
