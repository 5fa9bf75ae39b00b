"""Archive of restart cells and curriculum of start states."""
