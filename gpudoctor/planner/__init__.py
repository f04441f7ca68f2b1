"""From findings to the steps that mend them; pure, and shown before anything runs."""
