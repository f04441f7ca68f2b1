"""A sweep of hostile inputs that can be repeated: `python -m tests.hostile [N [SEED]]`."""
