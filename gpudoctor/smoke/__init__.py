"""Smoke kernels: proof that a device computes, and computes right.

`kernels/` runs in a child of the examined interpreter; the rest starts, watches and replaces such children.
"""
