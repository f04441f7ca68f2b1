"""Machines that are not probed but read in: snapshots, descriptions, pasted texts."""
