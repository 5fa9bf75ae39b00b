"""Where episodes begin so that play reaches further: an archive of restart points and a curriculum."""
