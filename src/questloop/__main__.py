"""`python -m questloop`: the command, for environments where its script is not on the path."""

from questloop.cli.app import main

if __name__ == "__main__":
    main()
