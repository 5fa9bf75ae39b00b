"""Fine-tune a language model by GRPO; the same as `questloop grpo`."""

import sys

from questloop.grpo.train import main

if __name__ == "__main__":
    sys.exit(main())
