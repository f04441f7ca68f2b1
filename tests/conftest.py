"""What holds for all tests."""

import os
import signal

from hypothesis import settings

# How long an example takes says more about the machine than about the code.
settings.register_profile("no clock", deadline=None)
settings.load_profile("no clock")

# Threads of a torch and workers of the tests that share the cores keep each other waiting.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# A runner in the background hands on that they are ignored, and gpudoctor then keeps to that.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

pytest_plugins = ["pytester"]


def pytest_make_parametrize_id(val: object) -> str | None:
    """Name a long text by its beginning: all names of tests travel between processes, some texts have megabytes."""
    if isinstance(val, (str, bytes)) and len(val) > 200:
        return f"{val[:50]!a}..."
    return None
