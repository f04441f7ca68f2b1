"""Kernels that ran."""
