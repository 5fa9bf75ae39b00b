"""The GPU poller of the fleet; the same as `questloop fleet poller`."""

import sys

from questloop.cli.app import main

if __name__ == "__main__":
    sys.argv[1:1] = ["fleet", "poller"]
    main()
