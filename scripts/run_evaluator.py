"""One judge pass over an epoch's segments: `questloop evaluate`, by the name that cluster jobs use."""

import sys

from questloop.cli.app import main

if __name__ == "__main__":
    sys.argv.insert(1, "evaluate")
    main()
