"""Smoke kernels: they prove that a device computes, and computes correctly.

`kernels/` runs in a child of the examined interpreter; the other modules start, watch and replace such children.
"""
