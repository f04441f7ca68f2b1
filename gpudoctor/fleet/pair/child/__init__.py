"""What runs in the examined interpreter: standard library and torch only, Python 3.8 and newer."""
