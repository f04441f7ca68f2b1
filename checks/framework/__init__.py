"""The framework itself: its build, its installation, its import."""
