"""Readable files: a collection as plain JSON where S3WORM puts it, written from the log and never read back by it.

Names and shapes are pure: which key a file has (`placement`, `names`) and what is in it (`entity_file`,
`oplog_file`, `snapshot_file`, `trash_file`, `manifest_file`, `index_file`, `sentinel`). `expected` says of a state
which files it should have.
"""
