"""Hardware, kernel and driver."""
