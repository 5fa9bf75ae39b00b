"""The requeue manager of the fleet; the same as `questloop fleet requeue`."""

import sys

from questloop.cli.app import main

if __name__ == "__main__":
    sys.argv[1:1] = ["fleet", "requeue"]
    main()
