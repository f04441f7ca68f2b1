"""gpudoctor: why a GPU does not work with PyTorch, and the exact repair."""

import os

__version__ = "0.1.0"

# In a checkout `checks/` and the matrix lie beside this package; in a wheel they lie inside it.
_checkout = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
if os.path.isfile(os.path.join(_checkout, "compat_matrix.yaml")):
    __path__.append(_checkout)
