"""Applying a plan as a transaction: record, journal, run the steps, undo."""
