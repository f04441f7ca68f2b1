"""Many nodes: what they do together."""
