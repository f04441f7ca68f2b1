"""The checks, one module per layer of the stack. Each is a pure function over a `Case`."""
