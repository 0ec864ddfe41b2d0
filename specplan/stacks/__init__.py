"""One file a serving stack: how its numbers are read. `detect` finds out which one a file comes from."""
