"""What a start costs: our own modules are found without detours. What a static check imports: test_packaging.py."""

import json
import os
import py_compile
import subprocess
import sys
from collections.abc import Callable
from importlib.util import cache_from_source
from pathlib import Path

import pytest

from gpudoctor.own_modules import _compiled, _Loader

_MODULES = """
import json
import sys
import typing
from gpudoctor.own_modules import OwnModules, install
if sys.argv[1] == "own":
    install()
import gpudoctor.checks.packages.companions, gpudoctor.cli.fix, gpudoctor.render.html.report, gpudoctor.survey.files
from gpudoctor.matrix.rows import KnownIssue
others = ("gpudoctor.own_modules", "gpudoctor.checks")  # already there; lies beside the package in a checkout
print(json.dumps({
    name: [module.__file__, module.__cached__, module.__package__, list(getattr(module, "__path__", ())),
           module.__spec__.origin, module.__spec__.name, len(module.__loader__.get_source(name)),
           hasattr(module, "no_such"), type(module.__loader__).__name__]
    for name, module in sys.modules.items() if name.startswith("gpudoctor.") and name not in others
} | {"lazy": [str(KnownIssue), repr(typing.ForwardRef("int")), ""]}))
"""


def _modules(how: str, *options: str, **environ: str) -> dict[str, list[object]]:
    done = subprocess.run(
        [sys.executable, *options, "-c", _MODULES, how],
        capture_output=True, text=True, timeout=120, check=True, env={**os.environ, **environ},
    )  # fmt: skip
    found: dict[str, list[object]] = json.loads(done.stdout)
    return found


def test_our_modules_are_the_same_whoever_finds_them() -> None:
    usual = _modules("usual", PYTHONDONTWRITEBYTECODE="")  # compiles them
    own = _modules("own")
    assert {module[-1] for module in own.values()} == {"_Loader", ""}
    assert {name: place for name, (*place, _) in own.items()} == {name: place for name, (*place, _) in usual.items()}


@pytest.mark.parametrize("options", [("-O",), ("-X", "pycache_prefix=elsewhere")])
def test_compiled_files_in_another_place_are_left_to_python(options: tuple[str, ...]) -> None:
    assert "_Loader" not in {module[-1] for module in _modules("own", *options, PYTHONDONTWRITEBYTECODE="1").values()}


_FIRST_PYTHON_3_10 = """
import typing
from gpudoctor.own_modules import install

def init(self, arg, is_argument=True, module=None, init=typing.ForwardRef.__init__):
    init(self, arg, is_argument, module)

typing.ForwardRef.__init__ = init
install()
from gpudoctor.machine import Library
import msgspec
print(msgspec.convert({"name": "libcuda.so.1", "path": "/lib/libcuda.so.1", "kind": "driver"}, Library).name)
"""


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="types of annotations are made elsewhere there")
def test_records_are_read_where_forward_ref_has_no_is_class() -> None:
    """In Python 3.10.0 to 3.10.2."""
    command = [sys.executable, "-c", _FIRST_PYTHON_3_10]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout, done.stderr) == ("libcuda.so.1\n", "")


def _edited(source: Path) -> None:
    source.write_text("answer = 4321\n")


def _touched(source: Path) -> None:
    os.utime(source, (1, 1))


def _moved(source: Path) -> None:
    compiled = Path(cache_from_source(str(source)))
    py_compile.compile(str(source), str(compiled), dfile="/elsewhere/a.py")


def _checked_by_hash(source: Path) -> None:
    py_compile.compile(str(source), invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH)


def _of_another_python(source: Path) -> None:
    compiled = Path(cache_from_source(str(source)))
    compiled.write_bytes(b"\0\0\r\n" + compiled.read_bytes()[4:])


def _removed(source: Path) -> None:
    source.unlink()


def _never_compiled(source: Path) -> None:
    Path(cache_from_source(str(source))).unlink()


@pytest.mark.parametrize(
    "change", [_edited, _touched, _moved, _checked_by_hash, _of_another_python, _removed, _never_compiled]
)
def test_a_compiled_file_counts_only_for_its_source(tmp_path: Path, change: Callable[[Path], None]) -> None:
    source = tmp_path / "a.py"
    source.write_text("answer = 42\n")
    py_compile.compile(str(source))
    code = _compiled(str(source))
    assert code is not None
    found: dict[str, object] = {}
    exec(code, found)
    assert found["answer"] == 42
    change(source)
    assert _compiled(str(source)) is None


@pytest.mark.parametrize("seconds", [-1, 0, 1 << 33])
def test_a_source_may_be_of_any_time(tmp_path: Path, seconds: int) -> None:
    source = tmp_path / "a.py"
    source.write_text("answer = 42\n")
    os.utime(source, (seconds, seconds))
    compiled = Path(cache_from_source(str(source)))
    py_compile.compile(str(source))
    stamp = int(source.stat().st_mtime) & 0xFFFFFFFF
    compiled.write_bytes(compiled.read_bytes()[:8] + stamp.to_bytes(4, "little") + compiled.read_bytes()[12:])
    assert _compiled(str(source)) is not None


def _run(*arguments: str, ask: str) -> str:
    """What `ask` says in the process of a command, at its end."""
    program = (
        "import os, sys\n"
        f"def told(code): print({ask}, file=sys.stderr, flush=True); leave(code)\n"
        "leave, os._exit = os._exit, told\n"
        "from gpudoctor.__main__ import program\n"
        "program()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=120, check=False
    )
    return done.stderr.splitlines()[-1]


def _imported(*arguments: str) -> set[str]:
    return set(_run(*arguments, ask="*sys.modules").split())


def test_the_command_finds_its_own_modules() -> None:
    assert _run("check", "--level", "static", ask="type(sys.modules['gpudoctor.survey'].__loader__)") == repr(_Loader)


def test_versions_are_told_without_a_command_line_library() -> None:
    imported = _imported("--version")
    assert "gpudoctor.command_line.version" in imported
    assert not imported & {"click", "gpudoctor.survey", "gpudoctor.engine"}  # an edited matrix is validated
