"""Fine-tune a small language model as a judge, by the recipe of docs/explanation/judge-recipe.md."""

import argparse
import sys

from questloop.grpo.judge_recipe import GRPO_STEPS, WARM_START_STEPS, judge_arguments
from questloop.grpo.train import main

if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, epilog="Further arguments go to the training script, for example --use_cpu."
    )
    parser.add_argument("--model", required=True, help="folder of the model to start from")
    parser.add_argument("--dataset", required=True, help="folder that `questloop judge export` wrote")
    parser.add_argument("--output_dir", required=True)
    parser.add_argument("--warm_start_steps", type=int, default=WARM_START_STEPS)
    parser.add_argument("--grpo_steps", type=int, default=GRPO_STEPS)
    parser.add_argument("--seed", type=int, default=0)
    arguments, more = parser.parse_known_args()
    sys.exit(main([*judge_arguments(**vars(arguments)), *more]))
