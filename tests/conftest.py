"""What holds for all tests."""

import os
import signal
from collections.abc import Iterator

import pytest
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

LONGEST = ("test_smoke_full.py", "test_broken_environments.py", "test_fix_end_to_end.py", "test_smoke_kernels.py")
"""Files that begin first: each goes to one worker as a whole, and none should end alone with a long one."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.name not in LONGEST)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One worker more than cores: many tests wait for children, pip and torchrun above all."""
    return (os.cpu_count() or 1) + 1


def pytest_make_parametrize_id(val: object) -> str | None:
    """Name a long text by its beginning: all names of tests travel between processes, some texts have megabytes."""
    if isinstance(val, (str, bytes)) and len(val) > 200:
        return f"{val[:50]!a}..."
    return None


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL below which the package index and those of torch's builds are served."""
    from tests.support.torch_indexes import served, write_indexes

    root = tmp_path_factory.mktemp("indexes")
    write_indexes(root)
    with served(root) as address:
        yield address
