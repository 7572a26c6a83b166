"""`python -m wormdb.cli` is `worm`."""

from wormdb.cli.main import main

if __name__ == "__main__":
    main()
