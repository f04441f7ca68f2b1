"""Real imports that fail in a made-up environment: the first problem, and the package that is installed again."""

from __future__ import annotations

import json
import os
import py_compile
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from gpudoctor.cli import gpudoctor
from gpudoctor.frameworks.torch.probes.import_failure import with_suspects
from gpudoctor.host import LiveHost
from gpudoctor.machine import NOT_STARTED, ImportTrial, ProcessLimits, SuspectFile
from gpudoctor.planner.plan import fixes_for
from gpudoctor.probes.file_owner import Owners, unusable
from gpudoctor.probes.python_environment import probe_environment
from gpudoctor.situation import Situation
from gpudoctor.survey import survey
from gpudoctor.testing import nvidia_machine, with_environment
from tests.support.check_cases import matrix
from tests.support.environments import shared_library, write_distribution, write_venv
from tests.support.imports import examined, problems
from tests.support.judging import finding, judged, remedies, severity
from tests.support.smoke_children import PYTHON, TORCH

TAG = PYTHON.replace(".", "")


def write_environment(root: Path) -> Path:
    """A torch that needs `helper`, both installed. Returns site-packages."""
    site = write_venv(root / "venv", PYTHON, home=str(Path(sys.base_prefix) / "bin"))
    files = {"torch/__init__.py": "import helper\n" + TORCH, "torch/version.py": "__version__ = '2.9.1+cpu'\n"}
    write_distribution(site, "torch", "2.9.1+cpu", requires=["helper>=2"], files=files)
    write_distribution(
        site, "helper", "2.0", files={"helper/__init__.py": "import helper.part\n", "helper/part.py": ""}
    )
    return site


def test_a_whole_environment_is_imported(tmp_path: Path) -> None:
    write_environment(tmp_path)
    machine = examined(tmp_path)
    assert problems(machine) == []
    assert machine.level == "static"  # no driver was asked


@pytest.mark.parametrize(
    ("file", "content", "fix"),
    [
        ("helper/part.py", None, "ReinstallPackage helper2.0"),
        ("helper/part.py", "x = (\n", "ReinstallPackage helper2.0"),
        ("helper/__init__.py", "import os\nos.kill(os.getpid(), 6)\n", "ReinstallPackage helper2.0"),
        ("helper/__init__.py", "raise ValueError('edited')\n", "ReinstallPackage helper2.0"),
        ("sitecustomize.py", "import sys\nclass helper: pass\nsys.modules['helper'] = None\n", "Manual"),
    ],
)
def test_the_owner_of_the_file_that_fails_is_installed_again(
    tmp_path: Path, file: str, content: str | None, fix: str
) -> None:
    path = write_environment(tmp_path) / file
    if content is None:
        path.unlink()
    else:
        path.write_text(content)
    machine = examined(tmp_path)
    assert problems(machine) == ["torch-import-fails"]
    assert remedies(machine, "torch-import-fails") == [fix]


def test_a_required_package_that_is_not_there_is_installed_as_it_is_required(tmp_path: Path) -> None:
    site = write_environment(tmp_path)
    for path in (*(site / "helper").iterdir(), *(site / "helper-2.0.dist-info").iterdir()):
        path.unlink()
    (site / "helper").rmdir()
    (site / "helper-2.0.dist-info").rmdir()
    machine = examined(tmp_path)
    assert remedies(machine, problems(machine)[0]) == ["ReplacePackage helper>=2"]
    assert len(problems(machine)) == 1


def test_a_stale_pyc_without_its_source_is_its_owners(tmp_path: Path) -> None:
    site = write_environment(tmp_path)
    (site / "helper/part.py").unlink()
    (site / "helper/part.pyc").write_bytes(bytes(16))
    assert remedies(examined(tmp_path), "torch-import-fails") == ["ReinstallPackage helper2.0"]


# --- described GPUs ---------------------------------------------------------------------------------------


def checked(root: Path, *options: str) -> tuple[int, dict[str, str]]:
    """Exit code, and the errors by slug, of `check` for a GPU that is not here."""
    where = ("--python", str(root / "venv/bin/python"), "--gpu", "RTX 4090", "--driver", "580.82.07")
    result = CliRunner().invoke(gpudoctor, ["check", "--format", "json", *where, *options])
    report = json.loads(result.stdout)
    errors = {one["slug"]: one["message"] for one in report["findings"] if one["severity"] == "error"}
    return report["exit_code"], errors


def write_gpu_build(root: Path, first_line: str) -> None:
    site = write_venv(root / "venv", PYTHON, home=str(Path(sys.base_prefix) / "bin"))
    version = "__version__ = '2.9.1+cu128'\ncuda = '12.8'\n"
    body = TORCH.replace("cuda, hip = None, None", "cuda, hip = '12.8', None").replace("2.9.1+cpu", "2.9.1+cu128")
    files = {"torch/__init__.py": first_line + body, "torch/version.py": version}
    write_distribution(site, "torch", "2.9.1+cu128", files=files)


def test_the_environment_is_imported_for_described_gpus_too(tmp_path: Path) -> None:
    write_gpu_build(tmp_path, "import os\nos.abort()\n")
    code, errors = checked(tmp_path)
    assert (code, list(errors)) == (1, ["torch-import-fails"])
    assert "SIGABRT" in errors["torch-import-fails"]
    assert checked(tmp_path, "--level", "static") == (0, {})
    assert checked(tmp_path, "--torch", "2.9.1+cu128") == (0, {})


def test_what_only_this_machine_lacks_is_not_held_against_the_described_one(tmp_path: Path) -> None:
    write_gpu_build(tmp_path / "sees-no-gpu", "")
    assert checked(tmp_path / "sees-no-gpu") == (0, {})
    text = "libcuda.so.1: cannot open shared object file: No such file or directory"
    write_gpu_build(tmp_path / "no-driver", f"raise ImportError({text!r})\n")
    assert checked(tmp_path / "no-driver") == (0, {})


# --- files -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("x.py", b"", ""),
        (f"x.cpython-{TAG}-x86_64-linux-gnu.so", shared_library(), ""),
        ("x.abi3.so", shared_library(), ""),
        ("x.cpython-31-x86_64-linux-gnu.so", shared_library(), "other-python"),
        ("x.so", b"\x7fELF\x02\x01\x01" + bytes(11) + b"\xf3\x00" + bytes(44), "other-processor"),
        ("x.so", b"not a library", ""),
    ],
)
def test_what_an_interpreter_cannot_load(tmp_path: Path, name: str, content: bytes, problem: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    assert unusable(LiveHost(), str(path), PYTHON, os.path.realpath(sys.executable))[0] == problem


def test_the_owner_of_a_file_is_the_package_whose_record_lists_it(tmp_path: Path) -> None:
    site = write_environment(tmp_path)
    machine = examined(tmp_path, "static")
    assert machine.environment.value is not None
    owners = Owners(LiveHost(), machine.environment.value.distributions.value or (), PYTHON, sys.executable)
    assert owners.of_file(f"{site}/helper/part.py") == SuspectFile(f"{site}/helper/part.py", "helper", "2.0")
    (site / "helper/part.py").write_text("x = 1\n")
    assert owners.of_file(f"{site}/helper/part.py").problem == "changed"
    (site / "helper/more.py").touch()
    assert owners.of_file(f"{site}/helper/more.py") == SuspectFile(f"{site}/helper/more.py")
    assert [file.path for file in owners.of_module("helper.part")] == [f"{site}/helper/part.py"]
    assert owners.of_file(os.__file__).standard


# --- modules in the place of others ----------------------------------------------------------------------


def shadows(root: Path, **variables: str) -> list[tuple[str, str]]:
    python = str(root / "venv/bin/python")
    found = probe_environment(LiveHost(variables), python, variables, modules=matrix().tables.imported_modules).value
    assert found is not None
    return [(shadow.name, shadow.via) for shadow in found.shadows]


def write(folder: Path, *names: str) -> str:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x = 1\n")
    return str(folder)


def test_modules_that_stand_before_those_that_torch_imports(tmp_path: Path) -> None:
    site = write_environment(tmp_path)
    write_distribution(site, "typing-extensions", "4.15.0", files={"typing_extensions.py": ""})
    own = write(tmp_path / "own", "queue.py", "logging/__init__.py", "typing_extensions.py", "abc.py")
    assert sorted(shadows(tmp_path, PYTHONPATH=own)) == [
        ("logging", "PYTHONPATH"),
        ("queue", "PYTHONPATH"),
        ("typing_extensions", "PYTHONPATH"),
    ]
    machine = examined(tmp_path, PYTHONPATH=write(tmp_path / "one", "typing.py"))
    assert problems(machine) == ["module-shadowed"]


def test_what_takes_nobodys_place(tmp_path: Path) -> None:
    site = write_environment(tmp_path)
    write_distribution(site, "typing-extensions", "4.15.0", files={"typing_extensions.py": ""})
    write_distribution(site, "dataclasses", "0.8", files={"dataclasses.py": ""})  # behind the standard library
    other = tmp_path / "target"
    write_distribution(other, "typing-extensions", "4.16.0", files={"typing_extensions.py": ""})
    write(other, "queue/data.txt", "my_queue.py", "queue.md", "sympy/notes.py", "sys.py", "tqdm.py")
    assert shadows(tmp_path, PYTHONPATH=str(other)) == []


def test_the_working_folder_counts_unless_python_is_told_not_to_look_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_environment(tmp_path)
    monkeypatch.chdir(write(tmp_path / "project", "random.py", "train.py"))
    assert shadows(tmp_path) == [("random", "working folder")]
    assert shadows(tmp_path, PYTHONSAFEPATH="1") == []
    monkeypatch.chdir(Path(os.__file__).parent)
    assert shadows(tmp_path) == []


def test_a_module_that_torch_only_tries_is_shadowed_where_nothing_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = write_environment(tmp_path)
    project = tmp_path / "project"
    monkeypatch.chdir(write(project, "numpy.py", "tqdm.py"))
    assert shadows(tmp_path) == [("numpy", "working folder")]
    assert "import numpy.py from it" in finding(examined(tmp_path, "static"), "module-shadowed").message
    (project / "numpy.py").unlink()
    monkeypatch.chdir(write(project, "numpy/__init__.py"))
    assert shadows(tmp_path) == [("numpy", "working folder")]
    write(project, "pyproject.toml")  # a checkout of NumPy
    assert shadows(tmp_path) == []
    write_distribution(site, "numpy", "2.3.4", files={"numpy/__init__.py": ""})
    assert shadows(tmp_path) == [("numpy", "working folder")]


def test_what_other_frameworks_import_is_shadowed_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = write_venv(tmp_path / "venv", PYTHON, home=str(Path(sys.base_prefix) / "bin"))
    for name in ("jax", "jaxlib", "numpy"):
        write_distribution(site, name, "0.6.2", files={f"{name}/__init__.py": ""})
    monkeypatch.chdir(write(tmp_path / "project", "random.py", "numpy.py", "pdb.py"))
    found = finding(examined(tmp_path, "static"), "module-shadowed")
    assert found.message.startswith("Programs started in this folder import numpy.py, random.py from it")
    assert found.subject == "jax 0.6.2"
    assert "jax needs" in found.message


def test_a_source_file_of_null_bytes_is_named_with_its_owner(tmp_path: Path) -> None:
    site = write_environment(tmp_path)
    (site / "helper/__init__.py").write_text("import helper.part  # whole\n")
    (site / "helper/part.py").write_bytes(bytes(20))
    machine = examined(tmp_path)
    assert f"{site}/helper/part.py, of helper 2.0, is not the file" in finding(machine, "torch-import-fails").message
    assert remedies(machine, "torch-import-fails") == ["ReinstallPackage helper2.0"]


def test_a_folder_that_a_removed_package_left_is_named(tmp_path: Path) -> None:
    """torch does without NumPy, but not with a numpy/ in which nothing is left."""
    site = write_environment(tmp_path)
    line = "import numpy\nassert numpy.ndarray\n"
    files = {"torch/__init__.py": line + TORCH, "torch/version.py": "__version__ = '2.9.1+cpu'\n"}
    shutil.rmtree(site / "torch-2.9.1+cpu.dist-info")
    write_distribution(site, "torch", "2.9.1+cpu", files=files)
    (site / "numpy/_core/__pycache__").mkdir(parents=True)
    (site / "google/api").mkdir(parents=True)  # a folder of many packages
    machine = examined(tmp_path)
    assert (
        f"{site}/numpy is left of a package that is not installed" in finding(machine, "torch-import-fails").message
    )
    assert f"rm -r {site}/numpy\n" in finding(machine, "torch-import-fails").fixes[0].remedies[0].text
    (site / "torch/__init__.py").write_text("import google\nassert google.nothing\n" + TORCH)
    write_distribution(site, "google", "1.0", files={"google/api/x.py": ""})
    assert "is left of" not in finding(examined(tmp_path), "torch-import-fails").message


def test_a_compiled_file_that_is_cut_short_is_removed_and_no_package_touched(tmp_path: Path) -> None:
    site = write_environment(tmp_path)
    part = site / "helper/part.py"
    compiled = Path(py_compile.compile(str(part), doraise=True))
    compiled.write_bytes(compiled.read_bytes()[:20])
    found = finding(examined(tmp_path), "torch-import-fails")
    assert f"The compiled file {compiled} is damaged" in found.message
    command = found.fixes[0].remedies[0].text.partition("anew: ")[2]  # type: ignore[union-attr]
    assert command == f"rm {compiled}"
    subprocess.run(command, shell=True, check=True)
    assert problems(examined(tmp_path)) == []


@pytest.mark.parametrize("installed", [True, False])
def test_a_backend_extension_that_fails_is_uninstalled_or_not_loaded(tmp_path: Path, installed: bool) -> None:
    site = write_environment(tmp_path)
    if installed:
        write_distribution(site, "torch-npu", "2.6.0")
    text = "Failed to load the backend extension: torch_npu. You can disable extension auto-loading."
    (site / "torch/__init__.py").write_text(
        "try:\n    raise ImportError('libascend_hal.so: cannot open shared object file: No such file')\n"
        f"except ImportError as error:\n    raise RuntimeError({text!r}) from error\n"
    )
    machine = examined(tmp_path)
    found = finding(machine, "torch-import-fails")
    assert "apt-file" not in str(found.fixes)
    variable = "set TORCH_DEVICE_BACKEND_AUTOLOAD=0"
    told = [remedies(machine, "torch-import-fails", number) for number in range(len(found.fixes))]
    assert told == [*([["RemovePackage torch-npu"]] if installed else []), [variable]]


def test_a_library_of_torch_itself_is_sought_in_torch(tmp_path: Path) -> None:
    site = write_environment(tmp_path)
    error = "libtorch_python.so: cannot open shared object file: No such file or directory"
    (site / "torch/__init__.py").write_text(f"raise ImportError({error!r})\n")
    next(site.glob("torch-*.dist-info/RECORD")).unlink()
    machine = examined(tmp_path)
    assert "apt-file" not in str([one.fixes for one in judged(machine).findings])
    assert problems(machine)[0] in ("torch-install-interrupted", "torch-import-fails")


def test_a_warning_that_pythonwarnings_makes_an_error_is_not_blamed_on_a_package(tmp_path: Path) -> None:
    site = write_environment(tmp_path)
    (site / "sitecustomize.py").write_text("")
    (site / "torch/__init__.py").write_text("import warnings\nwarnings.warn('no numpy')\n" + TORCH)
    assert problems(examined(tmp_path)) == []
    machine = examined(tmp_path, PYTHONWARNINGS="error")
    assert problems(machine) == ["torch-import-fails"]
    assert remedies(machine, "torch-import-fails") == ["unset PYTHONWARNINGS"]


# --- folders that come before the environment's own ---


def older(root: Path) -> str:
    """A folder with a `helper` that lacks what torch needs of it, as `pip install --target` makes it."""
    folder = root / "older"
    write_distribution(folder, "helper", "1.0", files={"helper/__init__.py": "raise ImportError('of old')\n"})
    return str(folder)


def test_packages_of_a_folder_in_pythonpath_are_not_installed_again(tmp_path: Path) -> None:
    write_environment(tmp_path)
    machine = examined(tmp_path, PYTHONPATH=older(tmp_path))
    assert problems(machine)
    for slug in problems(machine):
        assert remedies(machine, slug) == ["unset PYTHONPATH"]
    assert problems(examined(tmp_path, PYTHONPATH=str(tmp_path / "empty"))) == []


def test_a_torch_in_pythonpath_before_one_of_the_environment_is_not_installed_again(tmp_path: Path) -> None:
    """The same version twice: what is installed anew is not what Python imports."""
    site = write_environment(tmp_path)
    other = tmp_path / "other"
    for name in ("torch", "torch-2.9.1+cpu.dist-info", "helper", "helper-2.0.dist-info"):
        shutil.copytree(site / name, other / name)
    (other / "helper/part.py").unlink()
    machine = examined(tmp_path, PYTHONPATH=str(other))
    assert remedies(machine, "torch-import-fails") == ["unset PYTHONPATH"]


@pytest.mark.parametrize("name", ["zz.pth", "sitecustomize.py"])
def test_the_start_file_that_puts_another_folder_first_is_named(tmp_path: Path, name: str) -> None:
    site = write_environment(tmp_path)
    folder = older(tmp_path)
    (site / name).write_text(f"import sys; sys.path.insert(0, '{folder}')\n")
    machine = examined(tmp_path)
    assert problems(machine) == ["torch-import-fails"]
    found = finding(machine, "torch-import-fails")
    assert f"{site}/{name} makes Python look into {folder}, where it finds {folder}/helper" in found.message
    assert f"Take {folder} out of {site}/{name}" in found.fixes[0].remedies[0].text  # type: ignore[union-attr]


# --- variables that are set when Python starts ---


@pytest.mark.parametrize("file", ["sitecustomize.py", "gpu.pth"])
def test_a_variable_that_a_start_file_sets_is_judged_and_the_file_named(tmp_path: Path, file: str) -> None:
    site = write_environment(tmp_path)
    (site / file).write_text("import os; os.environ['CUDA_VISIBLE_DEVICES'] = ''\n")
    (site / "a.pth").write_text("import os\n")
    (site / "torch/version.py").write_text("__version__ = '2.9.1+cu128'\ncuda = '12.8'\n")
    machine = examined(tmp_path, CUDA_VISIBLE_DEVICES="0", HSA_XNACK="1")
    assert machine.variables["CUDA_VISIBLE_DEVICES"] == ""
    assert machine.variables["HSA_XNACK"] == "1"
    described = replace(nvidia_machine(), environment=machine.environment, variables=machine.variables)
    found = finding(described, "cuda-visible-devices")
    assert found.severity == "error"
    step = fixes_for(found, Situation(described, matrix()))[0].steps[0]
    assert f"from {site}/{file}: it runs whenever this Python starts" in step.text  # type: ignore[union-attr]


def test_a_start_file_may_delete_a_variable_and_others_change_nothing(tmp_path: Path) -> None:
    site = write_environment(tmp_path)
    (site / "sitecustomize.py").write_text("import os; os.environ.pop('CUDA_VISIBLE_DEVICES', None)\n")
    assert "CUDA_VISIBLE_DEVICES" not in examined(tmp_path, CUDA_VISIBLE_DEVICES="7").variables
    (site / "sitecustomize.py").write_text("import os; os.environ['CUDA_VISIBLE_DEVICES'] = '7'\n")
    machine = examined(tmp_path, CUDA_VISIBLE_DEVICES="7")
    assert machine.variables["CUDA_VISIBLE_DEVICES"] == "7"
    assert machine.torch is not None
    assert machine.torch.trial.value is not None
    assert machine.torch.trial.value.variables == ()


# --- the environment itself ------------------------------------------------------------------------------


def test_a_pth_file_may_name_a_folder_with_an_umlaut(tmp_path: Path) -> None:
    site = write_environment(tmp_path)
    (tmp_path / "größe").mkdir()
    (site / "local.pth").write_text(f"{tmp_path}/größe\n", encoding="utf-8")
    assert problems(examined(tmp_path, LC_ALL="", LANG="C.UTF-8")) == []


@pytest.mark.parametrize("level", ["static", None])
@pytest.mark.parametrize("torch", [True, False])
def test_a_pth_file_that_is_not_utf8_ends_python(tmp_path: Path, torch: bool, level: str | None) -> None:
    site = write_environment(tmp_path)
    if not torch:
        shutil.rmtree(site / "torch")
        shutil.rmtree(site / "torch-2.9.1+cpu.dist-info")
    (site / "powershell.pth").write_bytes("C:/more".encode("utf-16"))
    machine = examined(tmp_path, level)
    assert problems(machine) == ["environment-broken"]
    found = finding(machine, "environment-broken")
    assert f"{site}/powershell.pth is not UTF-8" in found.message
    assert f"rm {site}/powershell.pth" in found.fixes[0].remedies[0].text  # type: ignore[union-attr]


def test_a_pth_folder_and_one_of_plain_ascii_are_no_fault(tmp_path: Path) -> None:
    site = write_environment(tmp_path)
    (site / "folder.pth").mkdir()
    (site / "plain.pth").write_text("more\n")
    assert problems(examined(tmp_path)) == []


@pytest.mark.parametrize("level", ["static", None])
def test_an_interpreter_that_is_gone_or_of_another_version_is_told_from_files(
    tmp_path: Path, level: str | None
) -> None:
    write_environment(tmp_path)
    link = tmp_path / "venv/bin" / f"python{PYTHON}"
    link.unlink()
    link.symlink_to("/opt/gone/bin/python3.11")
    machine = examined(tmp_path, level)
    assert problems(machine) == ["environment-broken"]
    found = finding(machine, "environment-broken")
    assert "leads to /opt/gone/bin/python3.11, which does not exist" in found.message
    text = found.fixes[0].remedies[0].text  # type: ignore[union-attr]
    assert f"python{PYTHON} -m venv --without-pip {tmp_path}/venv" in text
    (tmp_path / "other/bin").mkdir(parents=True)
    (tmp_path / "other/bin/python3.6").write_text("#!/bin/sh\n")
    (tmp_path / "other/bin/python3.6").chmod(0o755)
    link.unlink()
    link.symlink_to(tmp_path / "other/bin/python3.6")
    machine = examined(tmp_path, "static")
    assert problems(machine) == ["environment-broken"]
    assert f"is Python 3.6, and the packages of this environment are for Python {PYTHON}" in (
        finding(machine, "environment-broken").message
    )


@pytest.mark.parametrize("level", ["static", None])
def test_a_venv_that_a_zip_brought_without_its_links_is_broken(tmp_path: Path, level: str | None) -> None:
    """Of a link such an archive keeps a file with the name that it led to."""
    write_environment(tmp_path)
    for link in (tmp_path / "venv/bin").glob("python*"):
        target = str(link.readlink())
        link.unlink()
        link.write_text(target)
        link.chmod(0o755)
    machine = examined(tmp_path, level)
    assert problems(machine) == ["environment-broken"]
    text = finding(machine, "environment-broken").fixes[0].remedies[0].text  # type: ignore[union-attr]
    assert f"-m venv --without-pip {tmp_path}/venv" in text


@pytest.mark.parametrize("folder", ["lib", f"lib/python{PYTHON}", f"lib/python{PYTHON}/site-packages"])
@pytest.mark.parametrize("level", ["static", None])
def test_packages_behind_a_link_to_a_disk_that_is_not_mounted_are_missed(
    tmp_path: Path, folder: str, level: str | None
) -> None:
    write_environment(tmp_path)
    real, disk = tmp_path / "venv" / folder, tmp_path / "disk"
    real.rename(disk)
    real.symlink_to(disk)
    assert problems(examined(tmp_path, level)) == []
    disk.rename(tmp_path / "elsewhere")
    machine = examined(tmp_path, level)
    assert problems(machine) == ["environment-broken"]
    found = finding(machine, "environment-broken")
    assert f"{real} leads to {disk}, which does not exist" in found.message
    assert f"Mount or restore {disk}" in found.fixes[0].remedies[0].text  # type: ignore[union-attr]


def test_the_venv_that_the_fix_makes_again_sees_its_packages(tmp_path: Path) -> None:
    write_environment(tmp_path)
    for link in (tmp_path / "venv/bin").glob("python*"):
        link.unlink()
    (tmp_path / "venv/bin/python").symlink_to("/opt/gone/python3")
    text = finding(examined(tmp_path), "environment-broken").fixes[0].remedies[0].text  # type: ignore[union-attr]
    for line in text.splitlines()[1:]:
        subprocess.run(line, shell=True, check=True)
    assert problems(examined(tmp_path)) == []


def test_a_venv_whose_settings_name_another_python_than_its_link_is_told(tmp_path: Path) -> None:
    """`python -m venv --upgrade` of another Python of that version writes pyvenv.cfg, and leaves the links."""
    site = write_environment(tmp_path)
    for name in ("one", "two"):
        python = tmp_path / name / "bin" / f"python{PYTHON}"
        (tmp_path / name / f"lib/python{PYTHON}").mkdir(parents=True)
        (tmp_path / name / f"lib/python{PYTHON}/os.py").write_text("")
        python.parent.mkdir()
        python.write_bytes(shared_library())
        python.chmod(0o755)
    prefix = site.parents[2]
    for link in (prefix / "bin").glob("python*"):
        link.unlink()
    (prefix / "bin/python").symlink_to(tmp_path / f"one/bin/python{PYTHON}")
    for home, kinds in (("two", ["interpreter-mixed"]), ("one", [])):
        (prefix / "pyvenv.cfg").write_text(f"home = {tmp_path / home}/bin\nversion = {PYTHON}.1\n")
        environment = probe_environment(LiveHost(), str(prefix), {}).value
        assert environment is not None
        assert [one.kind for one in environment.start_faults] == kinds, home
        if kinds:
            found = with_environment(nvidia_machine(), start_faults=environment.start_faults, prefix=str(prefix))
            assert finding(found, "environment-broken").severity == "error"
            text = finding(found, "environment-broken").fixes[0].remedies[0].text  # type: ignore[union-attr]
            assert f"{tmp_path}/two/bin/python{PYTHON} -m venv --without-pip {prefix}" in text


def test_an_active_environment_that_is_gone_is_told(tmp_path: Path) -> None:
    """As after a project's folder was renamed: bin/activate still names the old one."""
    gone = {**os.environ, "VIRTUAL_ENV": str(tmp_path / "gone")}
    environment = probe_environment(LiveHost(gone), None, {}).value
    assert environment is not None
    assert environment.instead_of == str(tmp_path / "gone")
    named = probe_environment(LiveHost(gone), sys.prefix, {}).value
    assert named is not None
    assert named.instead_of == "", "--python says which one is meant"
    found = with_environment(nvidia_machine(), instead_of=environment.instead_of)
    assert severity(found, "environment-broken") == "note"
    found = with_environment(nvidia_machine(torch=None), instead_of=environment.instead_of)
    assert severity(found, "environment-broken") == "warning"


@pytest.mark.parametrize("named", ["venv", "venv/bin/python"])
def test_a_venv_without_its_pyvenv_cfg_is_told(tmp_path: Path, named: str) -> None:
    site = write_environment(tmp_path)
    (tmp_path / "venv/bin/activate").write_text("# venv\n")
    (tmp_path / "venv/pyvenv.cfg").unlink()
    environment = probe_environment(LiveHost(), str(tmp_path / named), {}).value
    assert environment is not None
    assert [(one.kind, one.path) for one in environment.start_faults] == [
        ("no-pyvenv-cfg", f"{site.parents[2]}/pyvenv.cfg")
    ]


def test_the_python_of_a_system_needs_no_pyvenv_cfg() -> None:
    environment = probe_environment(LiveHost(), sys.base_prefix, {}).value
    assert environment is not None
    assert environment.start_faults == ()


def test_a_pythonhome_without_the_library_of_this_python_is_told_and_unset(tmp_path: Path) -> None:
    write_environment(tmp_path / "env")
    started = [str(tmp_path / "env/venv/bin/python"), "-c", "0"]
    for folder in (str(tmp_path), f"{tmp_path}:{sys.base_prefix}", sys.base_prefix, ""):
        variables = {**os.environ, "PYTHONHOME": folder}
        starts = subprocess.run(started, env=variables, check=False, capture_output=True).returncode == 0
        environment = probe_environment(LiveHost(), str(tmp_path / "env/venv"), variables).value
        assert environment is not None
        assert [one.kind for one in environment.start_faults] == ["no-library"] * (not starts), folder
        machine = with_environment(nvidia_machine(variables=variables), start_faults=environment.start_faults)
        if not starts:
            assert remedies(machine, "environment-broken") == ["unset PYTHONHOME"]
            assert finding(machine, "environment-broken").severity == "error"
            bare = nvidia_machine(torch=None, variables=variables)  # a program has a Python of its own
            bare = with_environment(bare, start_faults=environment.start_faults)
            assert finding(bare, "environment-broken").severity == "note"


def test_an_interpreter_for_another_processor_is_told_and_the_packages_are_not_blamed(tmp_path: Path) -> None:
    write_environment(tmp_path)
    elf = bytearray(shared_library())
    elf[18] = 183 if os.uname().machine == "x86_64" else 62
    for link in (tmp_path / "venv/bin").glob("python*"):
        link.unlink()
    (tmp_path / "venv/bin/python").write_bytes(elf)
    (tmp_path / "venv/bin/python").chmod(0o755)
    for level in ("static", None):
        machine = examined(tmp_path, level)
        assert problems(machine) == ["environment-broken"]
        assert "is a program for" in finding(machine, "environment-broken").message


def test_a_venv_of_windows_is_told_and_never_made_again_around_its_packages(tmp_path: Path) -> None:
    (tmp_path / "venv/Lib/site-packages").mkdir(parents=True)
    (tmp_path / "venv/Scripts").mkdir()
    (tmp_path / "venv/pyvenv.cfg").write_text("home = C:\\Python311\r\nversion = 3.11.7\r\n")
    machine = survey(LiveHost({}), matrix(), python=str(tmp_path / "venv"), level="static").machine
    found = finding(machine, "environment-broken")
    assert "is an environment of Windows" in found.message
    assert "--without-pip" not in found.fixes[0].remedies[0].text  # type: ignore[union-attr]


def test_the_pth_file_that_ends_python_is_named(tmp_path: Path) -> None:
    site = write_environment(tmp_path)
    (site / "aaa.pth").write_text("import sys; sys.stdout.write('started')\n")
    (site / "licence.pth").write_text("import sys; sys.exit('no licence')\n")
    (site / "other.pth").write_text("import os\n")
    found = finding(examined(tmp_path), "torch-import-fails")
    assert f"{site}/licence.pth ends it" in found.message
    assert f"remove {site}/licence.pth" in found.fixes[0].remedies[0].text  # type: ignore[union-attr]


def test_a_file_that_no_release_brought_is_removed_from_the_package(tmp_path: Path) -> None:
    site = write_environment(tmp_path)
    (site / "torch/__init__.py").write_text("from torch.lib import start\n" + TORCH)
    size = (site / "torch/__init__.py").stat().st_size
    record = site / "torch-2.9.1+cpu.dist-info/RECORD"
    lines = [line for line in record.read_text().splitlines() if not line.startswith("torch/__init__.py")]
    record.write_text("\n".join([f"torch/__init__.py,,{size}", *lines]) + "\n")
    (site / "torch/lib").mkdir()
    (site / "torch/lib/__init__.py").write_text("")
    found = finding(examined(tmp_path), "torch-import-fails")
    assert "is no file of torch 2.9.1+cpu" in found.message
    assert f"rm {site}/torch/lib/__init__.py" in found.fixes[0].remedies[0].text  # type: ignore[union-attr]


def test_a_module_that_an_installed_package_lacks_is_its_own(tmp_path: Path) -> None:
    site = write_environment(tmp_path)
    write_distribution(site, "other", "1.0", files={"other/__init__.py": "import sys\n"})
    (site / "helper/part.py").write_text("import other.newer\n")
    record = site / "helper-2.0.dist-info/RECORD"
    lines = [line for line in record.read_text().splitlines() if "part.py" not in line]
    record.write_text("\n".join([lines[0], "helper/part.py,,", *lines[1:]]) + "\n")
    found = finding(examined(tmp_path), "torch-import-fails")
    assert "The installed other 1.0 has no module other.newer" in found.message


def test_the_pth_file_in_which_python_waits_for_ever_is_named(tmp_path: Path) -> None:
    site = write_environment(tmp_path)
    (site / "mount.pth").write_text("import time; time.sleep(600)\n")
    environment = probe_environment(LiveHost(), str(tmp_path / "venv"), {}).value
    assert environment is not None
    trial = ImportTrial(ok=False, error=f"{NOT_STARTED}: no answer within 90 s", hung=True)
    limits = ProcessLimits()
    suspects = with_suspects(LiveHost(), environment, trial, limits, limits).suspects
    assert [(one.path, one.problem) for one in suspects] == [(f"{site}/mount.pth", "ends-python")]


def test_a_compiled_file_that_python_does_not_compare_with_its_source_is_removed(tmp_path: Path) -> None:
    site = write_environment(tmp_path)
    (site / "torch/__init__.py").write_text("from helper.part import new\n" + TORCH)
    part = site / "helper/part.py"
    py_compile.compile(str(part), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    part.write_text("new = 1\n")
    record = site / "helper-2.0.dist-info/RECORD"
    lines = [line for line in record.read_text().splitlines() if not line.startswith("helper/part.py")]
    record.write_text("\n".join([lines[0], "helper/part.py,,8", *lines[1:]]) + "\n")
    found = finding(examined(tmp_path), "torch-import-fails")
    assert "was compiled from an older file" in found.message
    assert f"rm {site}/helper/__pycache__/part" in found.fixes[0].remedies[0].text  # type: ignore[union-attr]


def test_a_library_that_is_there_and_not_looked_for_is_not_installed_from_elsewhere(tmp_path: Path) -> None:
    site = write_environment(tmp_path)
    write_distribution(site, "nvidia-thing-cu12", "12.0", files={"nvidia/thing/lib/libthing.so.12": shared_library()})
    error = "libthing.so.12: cannot open shared object file: No such file or directory"
    (site / "helper/part.py").write_text(f"raise ImportError('{error}')\n")
    record = site / "helper-2.0.dist-info/RECORD"
    lines = [line for line in record.read_text().splitlines() if "part.py" not in line]
    record.write_text("\n".join([lines[0], "helper/part.py,,", *lines[1:]]) + "\n")
    found = finding(examined(tmp_path), "torch-import-fails")
    assert "is there, and the loader does not look into its folder" in found.message
    assert "apt-file" not in found.fixes[0].remedies[0].text  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("#!{tmp}/old/bin/python3", "{tmp}/old/bin/python3"),  # renamed, or copied and the old one is still there
        ('#!/bin/sh\n\'\'\'exec\' "{tmp}/a folder/bin/python" "$0" "$@"', "{tmp}/a folder/bin/python"),
        ("#!{tmp}/venv/bin/python3", ""),
        ("#!{tmp}/link/bin/python3", ""),  # a link to this environment
        ('#!/bin/sh\n\'\'\'exec\' "$(dirname -- "$(realpath -- "$0")")"/\'python\' "$0" "$@"', ""),  # relocatable
        ("#!/usr/bin/env python3", ""),
    ],
)
@pytest.mark.parametrize("program", ["pip", "pip3"])
def test_a_pip_that_starts_another_python_is_noted(tmp_path: Path, program: str, line: str, told: str) -> None:
    write_environment(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "venv")
    (tmp_path / f"venv/bin/{program}").write_text(line.format(tmp=tmp_path) + "\nimport pip\n")
    machine = examined(tmp_path)
    assert problems(machine) == []
    assert [one.severity for one in judged(machine).findings if one.slug == "environment-broken"] == ["note"] * bool(
        told
    )
    if told:
        found = finding(machine, "environment-broken")
        assert found.saw == told.format(tmp=tmp_path)
        assert found.message.startswith(f"{tmp_path}/venv/bin/{program} starts")
        assert f"{tmp_path}/venv/bin/python -m pip" in found.fixes[0].remedies[0].text  # type: ignore[union-attr]
