"""Programs that compute with a framework beside torch, one small file each.

They run in the examined interpreter: Python 3.8, the standard library and that framework alone. A file has two
functions: `devices()` names where the framework can compute, GPUs first, and `product(a, b, device)` multiplies two
matrices there; it returns the result, row by row, and the name of the device that really computed it.
"""
