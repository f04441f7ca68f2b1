"""gpudoctor: why a GPU does not work with PyTorch, and the exact repair."""

from pathlib import Path

__version__ = "0.1.0"

# In a checkout `checks/` and the matrix lie beside this package; in a wheel they lie inside it.
_checkout = Path(__file__).resolve().parent.parent
if (_checkout / "compat_matrix.yaml").is_file():
    __path__.append(str(_checkout))
