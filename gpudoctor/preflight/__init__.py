"""Judge, then become the command: what stands in front of a container's program."""
