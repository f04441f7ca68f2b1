"""From remedies to steps: the plan of a repair, and what runs it."""
