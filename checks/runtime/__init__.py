"""CUDA and ROCm libraries, and the variables that steer them."""
