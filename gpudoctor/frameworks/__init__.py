"""What is known of frameworks: torch in a folder of its own, the others by their rows in the matrix."""
