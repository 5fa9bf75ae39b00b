"""The model learned from the judges' preferences: its network, its fit and how far it can be trusted."""
