"""A program of the job's own Python: standard library and torch only, Python 3.8."""
