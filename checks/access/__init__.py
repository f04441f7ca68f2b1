"""Device nodes, containers, jobs, visibility variables: whether a process reaches the GPUs."""
