"""`python -m wormdb.cli` is `worm`."""

from wormdb.cli.main import main

main()
