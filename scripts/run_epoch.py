"""The same as `questloop epoch`, under the name that cluster jobs use."""

import sys

from questloop.cli.app import main

if __name__ == "__main__":
    sys.argv = [sys.argv[0], "epoch", *sys.argv[1:]]
    main()
