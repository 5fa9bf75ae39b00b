"""A dispatcher of the fleet; the same as `questloop fleet dispatcher`."""

import sys

from questloop.cli.app import main

if __name__ == "__main__":
    sys.argv[1:1] = ["fleet", "dispatcher"]
    main()
