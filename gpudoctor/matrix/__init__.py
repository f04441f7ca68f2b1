"""What works with what: the rows of `compat_matrix.yaml`, and the questions that they answer."""
