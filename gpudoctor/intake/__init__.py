"""Machines that are not probed but read in: snapshots (descriptions come later)."""
