"""Collections without a log: files that another program keeps, read as they are and never written.

A query reads each file once (`files.py`), chooses one of four strategies in a fixed order (`choose.py`), and is
carried out by the executor of `wormdb.query` over a source of files (`source.py`, `answer.py`).
"""
