"""The same as `questloop pipeline`, under the name that cluster jobs use."""

import sys

from questloop.cli.app import main

if __name__ == "__main__":
    sys.argv = [sys.argv[0], "pipeline", *sys.argv[1:]]
    main()
