"""Checks the machine, then becomes the command: the entry point in front of a container's program."""
