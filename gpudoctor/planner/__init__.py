"""From problems to the steps that fix them; pure, and shown before anything runs."""
