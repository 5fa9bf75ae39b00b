"""The same as `questloop reward-model`, under the name that cluster jobs use."""

import sys

from questloop.cli.app import main

if __name__ == "__main__":
    sys.argv = [sys.argv[0], "reward-model", *sys.argv[1:]]
    main()
