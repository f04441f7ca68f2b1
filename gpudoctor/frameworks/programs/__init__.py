"""Programs that compute with a framework beside torch, one small file each.

They run in the examined interpreter: Python 3.8, the standard library and that framework alone. In a file
`devices()` names where the framework can compute, GPUs first, and `product(a, b, device)` multiplies two matrices
there; it returns the result, row by row, and the name of the device that really computed it. A framework that has
convolutions (cuDNN, MIOpen) does the same in `convolution(image, kernels, device)`: an image is a list of channels, a
kernel one of windows.
"""
