"""Plans for dialogs and puzzles that the policy hands over, and hints about where to go next."""
