"""Lets `python -m questloop` run the command line where its script is not on the path."""

from questloop.cli.app import main

if __name__ == "__main__":
    main()
