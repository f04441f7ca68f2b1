"""Reading an installed torch from its files."""
