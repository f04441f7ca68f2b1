"""Smoke kernels: they prove that a device computes, and computes correctly.

The kernels are in `frameworks/`; they run in a child of the examined interpreter. These modules start, watch and
replace such children.
"""
