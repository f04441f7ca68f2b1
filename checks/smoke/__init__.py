"""Problems that smoke kernels showed."""
