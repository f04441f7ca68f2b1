"""What is packed: the sdist builds the wheel, and the wheel holds the checks and the matrix."""

from __future__ import annotations

import configparser
import importlib.util
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.support.environments import write_torch, write_venv

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """(sdist, wheel), the wheel built from the sdist."""
    for needed in ("build", "hatchling"):
        pytest.importorskip(needed, reason=f"{needed} is not installed")
    out = tmp_path_factory.mktemp("dist")
    done = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (sdist,), (wheel,) = out.glob("*.tar.gz"), out.glob("*.whl")
    return sdist, wheel


def test_the_wheel_holds_code_checks_and_matrix_and_no_tests(built: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(built[1]) as archive:
        names = archive.namelist()
    assert len(names) == len(set(names))
    assert {"gpudoctor/compat_matrix.yaml", "gpudoctor/compat_matrix.msgpack", "gpudoctor/checks/__init__.py"} <= set(
        names
    )
    for module in (ROOT / "checks").glob("*.py"):
        assert f"gpudoctor/checks/{module.name}" in names
    assert {f"gpudoctor/schemas/{schema.name}" for schema in (ROOT / "schemas").iterdir()} <= set(names)
    assert "gpudoctor/py.typed" in names
    for module in (ROOT / "gpudoctor").rglob("*.py"):
        assert str(module.relative_to(ROOT)) in names
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"gpudoctor"}


def test_the_sdist_holds_what_a_build_and_a_test_run_need(built: tuple[Path, Path]) -> None:
    with tarfile.open(built[0]) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    needed = {"pyproject.toml", "hatch_build.py", "compat_matrix.yaml", "LICENSE", "README.md", "checks/__init__.py"}
    assert needed <= names
    assert {"tests/test_packaging.py", "docs/reference/README.md", "examples/compose.yaml", ".ci/run"} <= names
    assert "gpudoctor/compat_matrix.msgpack" not in names


def test_wheel_and_sdist_are_the_same_bytes_from_another_folder_at_another_time(
    built: tuple[Path, Path], tmp_path: Path
) -> None:
    with tarfile.open(built[0]) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    for path in source.rglob("*"):
        os.utime(path, (1_000_000_000, 1_000_000_000))
        path.chmod(path.stat().st_mode & 0o700)  # another umask
    done = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(tmp_path / "dist"), str(source)],
        capture_output=True, text=True, timeout=300, check=False, env={**os.environ, "TZ": "Asia/Tokyo"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    for file in built:
        assert (tmp_path / "dist" / file.name).read_bytes() == file.read_bytes(), file.name


def test_the_wheel_has_a_command_of_its_own_name_too(built: tuple[Path, Path]) -> None:
    """`uvx gpudoctor-cli` and `pipx run gpudoctor-cli` start the command that is called as the distribution is."""
    with zipfile.ZipFile(built[1]) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/entry_points.txt"))
        scripts = configparser.ConfigParser()
        scripts.read_string(archive.read(name).decode())
    assert name.startswith("gpudoctor_cli-")
    assert set(scripts["console_scripts"]) == {"gpudoctor", "gpudoctor-cli"}
    assert len(set(scripts["console_scripts"].values())) == 1
    assert dict(scripts["pytest11"]) == {"gpudoctor": "gpudoctor.pytest_plugin"}


def test_the_packed_matrix_is_the_one_of_the_checkout(built: tuple[Path, Path], tmp_path: Path) -> None:
    from hashlib import sha256

    from gpudoctor.matrix.rows import Tables
    from gpudoctor.matrix.stored import Stored

    with zipfile.ZipFile(built[1]) as archive:
        packed = archive.read("gpudoctor/compat_matrix.yaml")
        stored = Stored(archive.extract("gpudoctor/compat_matrix.msgpack", tmp_path))
    assert packed == (ROOT / "compat_matrix.yaml").read_bytes()
    assert stored.sha256 == sha256(packed).hexdigest()
    assert stored.names == Tables.__struct_fields__


def test_an_installed_wheel_finds_its_checks_and_reads_the_stored_matrix(
    built: tuple[Path, Path], tmp_path: Path
) -> None:
    with zipfile.ZipFile(built[1]) as archive:
        archive.extractall(tmp_path)
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import gpudoctor, gpudoctor.checks\n"
        "assert gpudoctor.__file__.startswith(sys.argv[1]), gpudoctor.__file__\n"
        "assert list(gpudoctor.checks.__path__)[0].startswith(sys.argv[1]), gpudoctor.checks.__path__\n"
        "from gpudoctor.suites import image_checks, machine_checks\n"
        "assert {check.id for check in machine_checks()} > {'GPD101', 'GPD402'}, list(machine_checks())\n"
        "assert {check.id[:4] for check in image_checks()} == {'GPD6'}\n"
        "from gpudoctor.matrix.load import load_matrix\n"
        "assert load_matrix().gpus.gpu_by_pci('10de:2b85').arch == 'sm_120'\n"
        "assert 'yaml' not in sys.modules\n"
        "from gpudoctor.cli.schema import schema_text\n"
        "assert '\"Report\"' in schema_text('check')\n"
        "print('fine')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=tmp_path,
        check=False,
    )
    assert done.stdout == "fine\n", done.stderr


@pytest.mark.parametrize("name", ["tests", "benchmarks", "hatch_build", "examples"])
def test_of_a_checkout_only_the_checks_are_found_in_the_package(name: str) -> None:
    assert importlib.util.find_spec("gpudoctor.checks") is not None
    assert importlib.util.find_spec(f"gpudoctor.{name}") is None


def test_a_pre_flight_of_the_installed_wheel_loads_no_library_that_only_people_need(
    built: tuple[Path, Path], tmp_path: Path
) -> None:
    with zipfile.ZipFile(built[1]) as archive:
        archive.extractall(tmp_path)
    program = (
        "import os, sys; sys.path.insert(0, sys.argv.pop(1))\n"
        "def became(*_):\n"
        "    slow = {'click', 'rich', 'distro', 'psutil', 'yaml', 'packaging', 'tomllib', 'tomli'}\n"
        "    print(sys.modules['gpudoctor'].__file__, sorted(slow & set(sys.modules)), flush=True)\n"
        "    os._exit(0)\n"
        "os.execve = became\n"
        "from gpudoctor.__main__ import main\n"
        "main()\n"
    )
    words = ("preflight", "--level", "static", "--select", "GPD910", "--require", "shm>=0", "--", "true")
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path), *words],
        capture_output=True, text=True, timeout=60, cwd=tmp_path, check=False,
    )  # fmt: skip
    assert done.stdout == f"{tmp_path}/gpudoctor/__init__.py []\n", done.stderr


NOT_FOR_A_STATIC_CHECK = {
    "asyncio", "click", "distro", "importlib.metadata", "json", "logging", "msgspec._json_schema",
    "packaging", "pathlib", "psutil", "rich", "shutil", "socket", "subprocess", "tempfile", "textwrap", "tomli",
    "tomllib", "traceback", "yaml",
    "gpudoctor.checks.image", "gpudoctor.cli", "gpudoctor.dockerfile", "gpudoctor.fix.journal", "gpudoctor.fleet",
    "gpudoctor.frameworks.torch.probes.import_failure", "gpudoctor.host.child", "gpudoctor.host.recorded_host",
    "gpudoctor.intake.described", "gpudoctor.matrix.rows.images", "gpudoctor.matrix.rows.tables",
    "gpudoctor.matrix.source", "gpudoctor.planner.search", "gpudoctor.recommend", "gpudoctor.render.html",
    "gpudoctor.render.json", "gpudoctor.smoke", "gpudoctor.survey.drivers", "gpudoctor.survey.imports",
}  # fmt: skip


def test_a_static_check_of_the_installed_wheel_imports_nothing_that_it_does_not_need(
    built: tuple[Path, Path], tmp_path: Path
) -> None:
    with zipfile.ZipFile(built[1]) as archive:
        archive.extractall(tmp_path / "wheel")
    site = write_venv(tmp_path / "venv")
    write_torch(site, requires=())
    program = (
        "import os, sys; sys.path.insert(0, sys.argv.pop(1))\n"
        "def told(code): print(*sys.modules, flush=True); leave(code)\n"
        "leave, os._exit = os._exit, told\n"
        "from gpudoctor.__main__ import program\n"
        "program()\n"
    )
    words = ("check", "--level", "static", "--python", str(tmp_path / "venv"))
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "wheel"), *words],
        capture_output=True, text=True, timeout=60, check=False,
        cwd=tmp_path, env={**os.environ, "HOME": str(tmp_path)},
    )  # fmt: skip
    imported = set(done.stdout.splitlines()[-1].split())
    assert {"gpudoctor.frameworks.torch.probes.installed", "gpudoctor.render.text"} <= imported, done.stderr
    assert sorted(NOT_FOR_A_STATIC_CHECK & imported) == []


def test_a_matrix_that_is_wrong_fails_the_build(tmp_path: Path) -> None:
    from gpudoctor.matrix.load import to_stored
    from gpudoctor.matrix.source import MatrixError

    broken = tmp_path / "compat_matrix.yaml"
    text = (ROOT / "compat_matrix.yaml").read_text()
    broken.write_text(text.replace("{pci: 2b85, chip: GB202,", "{pci: 2b85, chip: GB2O2,"))
    line = next(number for number, row in enumerate(text.splitlines(), 1) if "pci: 2b85" in row)
    with pytest.raises(MatrixError, match=rf"compat_matrix\.yaml:{line}: nvidia_gpus.*GB2O2"):
        to_stored(str(broken))
