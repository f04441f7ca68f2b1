"""Many nodes: which one is odd."""
