"""One declarative module a game."""
