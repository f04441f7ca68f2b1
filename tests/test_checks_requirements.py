"""What torch and other GPU packages require and lack; interrupted installs of torch."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from gpudoctor.finding import Manual, ReplacePackage
from gpudoctor.host import LiveHost
from gpudoctor.machine import DamagedFile, Distribution, Fact, ImportTrial, known
from gpudoctor.planner.plan import fixes_for
from gpudoctor.planner.planned_steps import Permissions
from gpudoctor.probes.frameworks import FrameworkRows
from gpudoctor.probes.installers import probe_installers
from gpudoctor.probes.python_environment import probe_environment
from gpudoctor.probes.record import damage
from gpudoctor.situation import Situation
from gpudoctor.step import ManualStep, RunStep
from tests.support.check_cases import matrix
from tests.support.environments import write_conda, write_conda_record, write_distribution, write_torch, write_venv
from tests.support.judging import finding, judged, plan_of, remedies, severity, told
from tests.support.machines import (
    amd_machine,
    change,
    nvidia_gpu,
    nvidia_machine,
    torch,
    with_environment,
    with_torch,
)

REQUIRES = (
    "typing-extensions>=4.10.0",
    "sympy>=1.13.3",
    'triton==3.5.1; platform_system == "Linux"',
    'nvidia-cudnn-cu12==9.10.2.21; platform_system == "Linux" and platform_machine == "x86_64"',
    'nvidia-nvtx-cu12==12.8.90; platform_system == "Linux"',
    'colorama; sys_platform == "win32"',
    'optree>=0.13.0; extra == "optree"',
)
PTXAS, NVDISASM = (f"triton/backends/nvidia/bin/{name}" for name in ("ptxas", "nvdisasm"))
PACKAGES = (
    ("typing-extensions", "4.16.0", (), {"typing_extensions.py": "#"}),
    ("sympy", "1.14.0", ("mpmath<1.4,>=1.1.0",), {"sympy/__init__.py": "#", "sympy/core/__init__.py": "#"}),
    ("mpmath", "1.3.0", (), {"mpmath/__init__.py": "#", "mpmath/tests/__init__.py": "#"}),
    ("triton", "3.5.1", (), {"triton/__init__.py": "#", "triton/_C/libtriton.so": b"x", PTXAS: b"x", NVDISASM: b"x"}),
    (
        "nvidia-cudnn-cu12",
        "9.10.2.21",
        (),
        {"nvidia/__init__.py": "", **{f"nvidia/cudnn/lib/libcudnn{n}.so.9": b"x" for n in ("", "_ops")}},
    ),
    ("nvidia-nvtx-cu12", "12.8.90", (), {"nvidia/nvtx/lib/libnvToolsExt.so.1": b"x"}),
    ("numpy", "2.3.4", (), {"numpy/__init__.py": "#", "numpy/_core/__init__.py": "#"}),
)  # fmt: skip


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A venv with torch 2.9.1 from the package index and all that it requires."""
    folder = write_venv(tmp_path / "venv")
    write_torch(folder, dist_version="2.9.1", requires=REQUIRES)
    for name, version, requires, files in PACKAGES:
        write_distribution(folder, name, version, requires=requires, files=files)
    (folder / PTXAS).chmod(0o755)
    return folder


def machine(site: Path, trial: ImportTrial | None = None):

    prefix = str(site.parents[2])
    rows = matrix().tables
    environment = probe_environment(
        LiveHost(),
        prefix,
        {},
        packages=matrix().gpu_packages,
        version_files=rows.version_files,
        frameworks=FrameworkRows(rows.frameworks, rows.framework_builds),
    )
    found = change(nvidia_machine(nvidia_gpu()), environment=environment)
    if trial is None:
        return found
    torch = environment.value.torch
    return with_environment(found, torch=change(torch, value=change(torch.value, trial=known(trial, "import torch"))))


def test_what_is_missing_is_asked_for_with_the_extras_that_bring_its_libraries(site: Path) -> None:
    """`cuda-toolkit` alone is an empty package: after a `pip install --no-deps torch` the import failed on."""
    record = site / "torch-2.9.1.dist-info/METADATA"
    line = 'Requires-Dist: cuda-toolkit[nvrtc,cublas]==12.8.1; platform_system == "Linux"\n'
    record.write_text(record.read_text().replace("Requires-Dist: sympy", f"{line}Requires-Dist: sympy"))
    shutil.rmtree(site / "nvidia_cudnn_cu12-9.10.2.21.dist-info")
    asked = finding(machine(site), "requirements-incomplete").fixes[0].remedies
    assert [(one.name, one.extra) for one in asked if isinstance(one, ReplacePackage)] == [
        ("nvidia-cudnn-cu12", ""),
        ("cuda-toolkit", "cublas,nvrtc"),
    ]
    assert "cuda-toolkit[cublas,nvrtc]==12.8.1 (not" in finding(machine(site), "requirements-incomplete").message


def remove(site: Path, name: str) -> None:
    record = next(site.glob(f"{name.replace('-', '_')}-*.dist-info"))
    for line in (record / "RECORD").read_text().splitlines():
        (site / line.partition(",")[0]).unlink(missing_ok=True)
    shutil.rmtree(record, ignore_errors=True)
    if "-" not in name:
        shutil.rmtree(site / name, ignore_errors=True)


def replace_by(site: Path, name: str, version: str) -> None:
    record = next(site.glob(f"{name.replace('-', '_')}-*.dist-info"))
    shutil.rmtree(record)
    write_distribution(site, name, version)


def test_an_environment_that_has_it_all_is_silent(site):
    assert told(machine(site), "GPD432") == []


@pytest.mark.parametrize(
    ("broken", "weight", "fix"),
    [
        ("typing-extensions", "error", "ReplacePackage typing-extensions>=4.10.0"),
        ("sympy", "warning", "ReplacePackage sympy>=1.13.3"),
        ("mpmath", "warning", "ReplacePackage mpmath<1.4,>=1.1.0"),
        ("triton", "warning", "ReplacePackage triton==3.5.1"),
        ("nvidia-cudnn-cu12", "warning", "ReplacePackage nvidia-cudnn-cu12==9.10.2.21"),
        ("numpy", None, ""),
        ("nvidia-nvtx-cu12", None, ""),
    ],
)
def test_what_is_not_installed(site, broken, weight, fix):
    remove(site, broken)
    assert severity(machine(site), "requirements-incomplete") == weight
    if weight:
        assert remedies(machine(site), "requirements-incomplete") == [fix]


@pytest.mark.parametrize(
    ("name", "version", "weight"),
    [
        ("typing-extensions", "4.5.0", "error"),
        ("sympy", "1.12", "warning"),
        ("mpmath", "1.4.1", "warning"),
        ("mpmath", "1.2.0", None),
        ("triton", "3.6.0", None),
        ("nvidia-cudnn-cu12", "9.15.0.1", None),
    ],
)
def test_what_is_installed_in_another_version(site, name, version, weight):
    replace_by(site, name, version)
    assert severity(machine(site), "requirements-incomplete") == weight


@pytest.mark.parametrize(
    ("gone", "weight"),
    [
        ("nvidia/cudnn", "error"),
        ("nvidia/cudnn/lib/libcudnn_ops.so.9", "error"),
        ("nvidia/__init__.py", None),
        ("nvidia/nvtx", None),
        ("typing_extensions.py", "error"),
        ("sympy/core", "warning"),
        ("numpy/_core", "warning"),
        ("mpmath/tests", None),
        (PTXAS, "warning"),
        (NVDISASM, None),
    ],
)
def test_what_is_recorded_and_gone(site, gone, weight):
    path = site / gone
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert severity(machine(site), "requirements-incomplete") == weight


def test_programs_that_lost_their_permission_are_one_problem_with_one_fix(site):
    paths = [site / name for name in (PTXAS, NVDISASM, "torch/bin/torch_shm_manager")]
    notes = site / "torch/bin/notes"
    for path in (*paths, notes):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"\x7fELF program" if path is not notes else b"text")
        path.chmod(0o644)
    record = site / "torch-2.9.1.dist-info/RECORD"
    lines = "".join(f"torch/bin/{name},sha256=x,12\n" for name in ("torch_shm_manager", "notes"))
    record.write_text(lines + record.read_text())
    assert severity(machine(site), "requirements-incomplete") is None
    found = finding(machine(site), "programs-not-executable")
    assert (found.severity, "ptxas" in found.message, "notes" in found.message) == ("warning", True, False)
    (step,) = plan_of(machine(site), Permissions(packages=True)).to_run
    assert sorted(step.argv) == sorted(["chmod", "a+x", *map(str, paths)])
    for path in paths:
        path.chmod(0o755)
    assert severity(machine(site), "programs-not-executable") is None


def test_a_file_that_was_emptied_is_gone(site):
    (site / "sympy/__init__.py").write_text("")
    assert remedies(machine(site), "requirements-incomplete") == ["ReinstallPackage sympy1.14.0"]


@pytest.mark.parametrize(("modules", "gone"), [("sympy", True), ("isympy\nsympy\n", True), ("isympy\nother", False)])
def test_of_a_package_without_a_record_its_modules_tell_whether_it_is_there(site, modules, gone):
    (site / "isympy.py").write_text("import sympy\n")
    info = next(site.glob("sympy-*.dist-info"))
    (info / "RECORD").unlink()
    (info / "top_level.txt").write_text(modules)
    assert told(machine(site), "GPD432") == []
    shutil.rmtree(site / "sympy")
    if gone:
        assert remedies(machine(site), "requirements-incomplete") == ["ReinstallPackage sympy1.14.0"]
    assert told(machine(site), "GPD432") == ([("requirements-incomplete", "warning")] if gone else [])
    (info / "top_level.txt").unlink()
    assert told(machine(site), "GPD432") == []


def test_a_module_without_a_record_is_there(site):
    shutil.rmtree(next(site.glob("typing_extensions-*.dist-info")))
    assert told(machine(site), "GPD432") == []


def test_an_image_whose_nvidia_libraries_come_from_the_system_is_silent(site):
    for name in ("nvidia-cudnn-cu12", "nvidia-nvtx-cu12"):
        remove(site, name)
    assert told(machine(site), "GPD432") == []


def test_conda_brings_its_own_names_unless_the_import_fails(site):
    remove(site, "typing-extensions")
    (next(site.glob("torch-*.dist-info")) / "INSTALLER").write_text("conda\n")
    assert told(machine(site), "GPD432") == []
    failed = ImportTrial(ok=False, error="ModuleNotFoundError: No module named 'typing_extensions'")
    assert [slug for slug, _ in told(machine(site, failed)) if slug.startswith(("req", "torch-import"))] == [
        "requirements-incomplete"
    ]


def test_all_problems_are_one_with_a_command_for_each_kind(site):

    remove(site, "typing-extensions")
    remove(site, "mpmath")
    shutil.rmtree(site / "nvidia/cudnn")
    (site / "sympy/__init__.py").unlink()
    broken = machine(site)
    found = finding(broken, "requirements-incomplete")
    assert found.severity == "error"
    steps = fixes_for(found, Situation(broken, matrix()))[0].steps
    commands = [step.argv[step.argv.index("install") + 1 :] for step in steps]
    assert commands[0] == ("typing-extensions>=4.10.0", "mpmath<1.4,>=1.1.0")
    assert set(commands[1]) >= {"--no-deps", "nvidia-cudnn-cu12==9.10.2.21", "sympy==1.14.0"}
    assert len(commands) == 2


def test_a_pin_that_nothing_misses_comes_along_with_what_is_missed(site):
    """Without it pip would say at the end that torch still lacks a package."""
    remove(site, "typing-extensions")
    remove(site, "nvidia-nvtx-cu12")
    assert "nvidia-nvtx-cu12==12.8.90 (not installed)" in finding(machine(site), "requirements-incomplete").message
    assert remedies(machine(site), "requirements-incomplete") == [
        "ReplacePackage typing-extensions>=4.10.0",
        "ReplacePackage nvidia-nvtx-cu12==12.8.90",
    ]


def test_a_rocm_torch_has_its_triton_under_another_name(site):
    remove(site, "triton")
    write_distribution(site, "pytorch-triton-rocm", "3.5.1")
    assert told(machine(site), "GPD432") == []


@pytest.mark.parametrize(
    ("version", "fix"), [("3.3.1", ["ReplacePackage pytorch-triton-rocm==3.5.1"]), ("3.6.0", [])]
)
def test_an_older_triton_than_a_rocm_torch_pins_is_replaced_and_a_newer_one_is_accepted(version, fix):
    asked = ("pytorch-triton-rocm==3.5.1 ; platform_system == 'Linux'",)
    torchs = Distribution("torch", "2.9.1+rocm6.4", "/s/torch.dist-info", "pip", asked)
    patient = amd_machine(torch=torch("2.9.1+rocm6.4"))
    listed = known((Distribution("pytorch-triton-rocm", version, "/s/t.dist-info", "pip"), torchs), "/s")
    patient = with_environment(patient, distributions=listed)
    assert remedies(patient, "requirements-incomplete") == fix if fix else told(patient, "GPD432") == []


def test_torchvision_without_pillow_is_an_error_of_torchvision(site):
    write_distribution(site, "torchvision", "0.24.1", requires=("numpy", "pillow!=8.3.*,>=5.3.0", "torch==2.9.1"))
    assert "`import torchvision` fails" in finding(machine(site), "requirements-incomplete").message


def test_what_setuptools_brings_for_itself_is_not_installed(site):
    vendored = site / "setuptools/_vendor"
    write_distribution(site, "setuptools", "84.2.1", files={"setuptools/__init__.py": "#"})
    write_distribution(vendored, "typing-extensions", "4.12.2", files={"typing_extensions.py": "#"})
    (site / "distutils-precedence.pth").write_text("import os; var = 'SETUPTOOLS_USE_DISTUTILS'\n")
    remove(site, "typing-extensions")
    assert severity(machine(site), "requirements-incomplete") == "error"


# --- interrupted installs ------------------------------------------------------------------------------------


def record(site: Path) -> Path:
    return next(site.glob("torch-*.dist-info"))


def test_a_torch_without_record_is_written_over_itself(site):
    (record(site) / "RECORD").unlink()
    found = machine(site)
    assert severity(found, "torch-install-interrupted") == "warning"
    failed = machine(site, ImportTrial(ok=False, signal="SIGBUS"))
    assert severity(failed, "torch-install-interrupted") == "error"


def test_what_has_no_record_is_removed_before_it_is_installed_again(site):
    write_distribution(site, "pip", "25.0")
    (record(site) / "RECORD").unlink()
    found = machine(site)
    steps = fixes_for(finding(found, "torch-install-interrupted"), Situation(found, matrix()))[0].steps
    remove, install = (step.argv for step in steps)
    assert remove == (
        "rm",
        "-rf",
        str(record(site)),
        *(f"{site}/{name}" for name in ("torch", "functorch", "torchgen")),
    )
    assert install[-3:] == ("--force-reinstall", "--no-deps", "torch==2.9.1")


def test_a_torch_without_metadata_or_without_dist_info(site):
    (record(site) / "METADATA").unlink()
    assert severity(machine(site), "torch-install-interrupted") == "warning"
    shutil.rmtree(record(site))
    assert severity(machine(site), "torch-install-interrupted") == "warning"


@pytest.mark.parametrize("case", ["folder", "dist-info", "~orch"])
def test_what_is_left_of_a_torch_is_an_error(site, case):
    if case == "folder":
        shutil.rmtree(record(site))
        (site / "torch/__init__.py").unlink()
    elif case == "dist-info":
        (record(site) / "RECORD").unlink()
        shutil.rmtree(site / "torch")
    else:
        record(site).rename(site / "~orch-2.9.1.dist-info")
        (site / "torch").rename(site / "~orch")
    found = [slug for slug, _ in told(machine(site)) if slug.startswith("torch")]
    assert found == ["torch-install-interrupted"]
    assert "ReinstallPackage torch" in remedies(machine(site), "torch-install-interrupted")[0]


def test_caches_of_an_uninstalled_torch_are_no_remains(site):
    remove(site, "torch")
    (site / "torch/__pycache__").mkdir(parents=True)
    assert severity(machine(site), "torch-install-interrupted") is None


def test_an_interrupted_uninstall_comes_back_in_its_own_version(site):
    """`pip uninstall torch` was killed: the files in ~orch name the version that is no longer recorded."""
    remove(site, "torch")
    (site / "~orch").mkdir()
    (site / "~orch/version.py").write_text("__version__ = '2.9.1+cu128'\ndebug = False\ncuda = '12.8'\n")
    assert remedies(machine(site), "torch-install-interrupted")[0] == "ReinstallPackage torch2.9.1"
    steps = plan_of(machine(site), Permissions(packages=True)).to_run
    assert [step.argv[0] for step in steps][:1] == ["rm"]
    named = [word for step in steps for word in step.argv if "==" in word]
    assert [word.replace("===", "==") for word in named] == ["torch==2.9.1"]


@pytest.mark.parametrize("build", ["cuda129_mkl_py312_h1_300", "cpu_generic_py312_h1_0"])
def test_what_conda_recorded_and_pip_removed_comes_back_by_conda(tmp_path: Path, build: str) -> None:
    """A build that cannot use the GPU comes back only if it is wanted."""
    site = write_conda(tmp_path / "env")
    write_distribution(site, "numpy", "2.3.4", installer="conda")
    assert told(machine(site)) == [("torch-missing", "note")]
    write_conda_record(tmp_path / "env", "pytorch", "2.9.1", build)
    found = finding(machine(site), "torch-install-interrupted")
    assert found.severity == "error"
    fixes = [remedy.text for fix in found.fixes for remedy in fix.remedies if isinstance(remedy, Manual)]
    assert fixes == [f"conda install -p {tmp_path}/env --force-reinstall pytorch=2.9.1"]
    assert isinstance(found.fixes[0].remedies[0], Manual) is build.startswith("cuda")
    write_torch(site, "2.9.1", "12.9")
    assert severity(machine(site), "torch-install-interrupted") is None


def test_a_record_without_a_list_of_files_is_removed_before_pip_meets_it(site):
    stray = site / "torch-2.8.0.dist-info"
    stray.mkdir()
    (stray / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 2.8.0\n")
    failed = ImportTrial(ok=False, error="ImportError: cannot import name 'a' from 'torch'")
    first, second = plan_of(machine(site, failed), Permissions(packages=True)).to_run
    assert first.argv == ("rm", "-rf", str(stray))
    assert "uninstall" not in second.argv
    assert any("torch==" in word for word in second.argv)


def test_packages_of_links_that_lead_nowhere_are_installed_again_together(site, tmp_path):
    """`uv --link-mode symlink`, and then the cache was removed."""
    cache = tmp_path / "cache"
    names = ("torch", "sympy", "mpmath", "typing_extensions")
    for info in (path for name in names for path in site.glob(f"{name}-*.dist-info")):
        record = (info / "RECORD").read_text().splitlines()
        for path in (site / line.partition(",")[0] for line in record if not line.startswith(f"{info.name}/RECORD")):
            target = cache / path.relative_to(site)
            target.parent.mkdir(parents=True, exist_ok=True)
            path.rename(target)
            path.symlink_to(target)
    assert severity(machine(site), "package-links-lead-nowhere") is None
    shutil.rmtree(cache)
    found = finding(machine(site), "package-links-lead-nowhere")
    assert found.severity == "error"
    told_of = {"requirements-incomplete", "torch-install-damaged", "torch-install-interrupted"}
    assert told_of.isdisjoint(dict(told(machine(site))))
    plan = plan_of(machine(site), Permissions(packages=True))
    *first, torch, others = plan.to_run
    assert [word.partition("=")[0] for word in torch.argv if "==" in word] == ["torch"]
    named = sorted(word for word in others.argv if "==" in word)
    assert named == ["mpmath==1.3.0", "sympy==1.14.0", "typing-extensions==4.16.0"]
    assert [step.argv[0] for step in first] == ["find"] * len(first)  # only pip needs that, before all else


@pytest.mark.parametrize("leads_to", ["/mnt/gone/it", "itself"])
@pytest.mark.parametrize("name", ["sympy", "typing_extensions.py"])
def test_a_link_that_leads_nowhere_is_removed_before_pip_writes_through_it(site, name, leads_to):
    path = site / name
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    path.symlink_to(name if leads_to == "itself" else leads_to)
    found = machine(site)
    environment = found.environment.value
    installers = probe_installers(LiveHost(), environment, (), commands=False)
    remove, install = plan_of(with_environment(found, installers=installers), Permissions(packages=True)).to_run
    assert remove.argv == ("rm", "-f", str(path))
    assert any(word.startswith(name.removesuffix(".py").replace("_", "-")) for word in install.argv)
    closed = replace(installers, writable=known(False, str(site)))
    (shown,) = plan_of(with_environment(found, installers=closed), Permissions(packages=True)).steps
    assert isinstance(shown.step, ManualStep)
    first, second, third = shown.step.text.splitlines()
    assert f"{site} cannot be written to" in first and second == f"rm -f {path}" and "pip install" in third


def test_an_old_package_of_distutils_is_removed_before_pip_refuses_to(site):
    shutil.rmtree(next(site.glob("sympy-*.dist-info")))
    record = site / "sympy-1.12-py3.12.egg-info"
    record.write_text("Metadata-Version: 1.1\nName: sympy\nVersion: 1.12\n")
    assert severity(machine(site), "requirements-incomplete") == "warning"
    remove_it, install = plan_of(machine(site), Permissions(packages=True)).to_run
    assert remove_it.argv == ("rm", "-rf", str(record))
    assert "sympy>=1.13.3" in install.argv
    record.write_text("Metadata-Version: 1.1\nName: sympy\nVersion: 1.14.0\n")
    assert told(machine(site), "GPD432") == []


@pytest.mark.parametrize(("build", "wanted"), [("cpu", "torch==2.9.1+cu130"), ("cu128", "torch==2.9.1+cu128")])
def test_the_torch_of_an_interrupted_change_comes_back_in_its_release(tmp_path: Path, build: str, wanted: str):
    """In place of a CPU build one for the GPU comes, and no newer torch than the rest was made for."""
    site = write_venv(tmp_path / "venv")
    write_torch(site, f"2.9.1+{build}", "12.8" if build == "cu128" else None, dist_version=f"2.9.1+{build}")
    for part in (site / "torch/__init__.py", site / "torch/version.py", next(site.glob("torch-*.dist-info/RECORD"))):
        part.unlink()
    assert [slug for slug, _ in told(machine(site))][:1] == ["torch-install-interrupted"]
    steps = plan_of(machine(site), Permissions(packages=True)).to_run
    assert [word for step in steps for word in step.argv if word.startswith("torch==")] == [wanted]


def test_what_another_cuda_replaces_is_removed_once(site):
    """The remains name no version: the best build here is of CUDA 13, and its wheels take the place of CUDA 12's."""
    remove(site, "torch")
    (site / "~orch").mkdir()
    steps = plan_of(machine(site), Permissions(packages=True)).to_run
    assert any("torch==" in word for step in steps for word in step.argv)
    naming = [step.argv for step in steps if any("cudnn" in word for word in step.argv)]
    assert len(naming) <= 1, naming


# --- two releases in one folder, and files without a record ---------------------------------------------------


def written_over(site: Path, name: str, version: str, files: dict[str, str]) -> None:
    """`pip install --ignore-installed`: another release over the installed one."""
    write_distribution(site, name, version, files=files)


def test_two_releases_of_numpy_in_one_folder_are_told_and_installed_cleanly(site):
    written_over(site, "numpy", "1.26.4", {"numpy/__init__.py": "# 1", "numpy/core/__init__.py": "# 1"})
    found = machine(site)
    assert severity(found, "package-installed-twice") == "warning"  # torch itself does without it
    assert "as 1.26.4 and 2.3.4" in finding(found, "package-installed-twice").message
    fix = remedies(found, "package-installed-twice")
    assert [remedy.split(" (")[0] for remedy in fix] == ["RemovePackage numpy", "ReinstallPackage numpy1.26.4"]


def test_two_patch_releases_of_a_package_that_only_a_part_needs_are_a_note(site):
    written_over(site, "numpy", "2.3.5", {"numpy/__init__.py": "# newer"})
    assert severity(machine(site), "package-installed-twice") == "note"
    written_over(site, "typing-extensions", "4.16.1", {"typing_extensions.py": "# newer"})
    found = [one.severity for one in judged(machine(site)).findings if one.slug == "package-installed-twice"]
    assert sorted(found) == ["note", "warning"]


def test_a_mixture_that_an_import_needs_is_an_error_and_the_admitted_release_stays(site):
    write_distribution(site, "jax", "0.6.2", requires=("jaxlib==0.6.2",), files={"jax/__init__.py": "#"})
    write_distribution(site, "jaxlib", "0.6.2", requires=("numpy>=2.0",), files={"jaxlib/__init__.py": "#"})
    written_over(site, "numpy", "1.26.4", {"numpy/__init__.py": "# 1", "numpy/core/__init__.py": "# 1"})
    found = machine(site)
    assert severity(found, "package-installed-twice") == "error"
    assert "ReinstallPackage numpy2.3.4" in remedies(found, "package-installed-twice")[1]
    assert severity(found, "requirements-incomplete") is None


@pytest.mark.parametrize(
    ("name", "file"), [("sympy", "sympy/__init__.py"), ("nvidia-cudnn-cu12", "nvidia/cudnn/x.so")]
)
def test_any_package_that_torch_requires_is_looked_at(site, name, file):
    written_over(site, name, "0.9", {file: "# older"})
    assert severity(machine(site), "package-installed-twice") is not None


def test_of_two_torchvisions_the_one_of_this_torch_is_installed(site):
    for version in ("0.24.1", "0.20.1"):
        written_over(site, "torchvision", version, {"torchvision/__init__.py": f"# {version * int(version[3])}"})
    found = machine(site)
    assert finding(found, "package-installed-twice").subject == "torchvision 0.20.1"  # its files lie there
    wanted = [["RemovePackage torchvision", "ReinstallPackage torchvision0.24.1"]]
    assert [remedies(found, "package-installed-twice")] == wanted


def test_of_two_torchvisions_that_fits_the_torch_and_is_here_stays(site):
    for version in ("0.29.1", "0.24.1"):
        written_over(site, "torchvision", version, {"torchvision/__init__.py": f"# {version}"})
    newer = with_torch(machine(site), version="2.14.1+cu130", cuda="13.0", build="cu130")
    assert remedies(newer, "package-installed-twice")[-1] == "ReinstallPackage torchvision0.29.1"


def test_what_is_left_of_an_earlier_record_and_other_packages_are_no_mixture(site):
    (write_distribution(site, "numpy", "1.26.4") / "RECORD").unlink()
    written_over(site, "requests", "2.31.0", {"requests/__init__.py": "#"})
    written_over(site, "requests", "2.32.0", {"requests/__init__.py": "# newer"})
    assert severity(machine(site), "package-installed-twice") is None


def test_a_package_without_a_record_is_judged_by_its_version_file(site):
    (site / "torchvision").mkdir()
    (site / "torchvision/version.py").write_text("__version__ = '0.20.1+cu124'\n")
    found = machine(site)
    assert severity(found, "torchvision-mismatch") == "error"
    steps = fixes_for(finding(found, "torchvision-mismatch"), Situation(found, matrix()))[0].steps
    assert steps[-2].argv[:3] == ("rm", "-rf", f"{site}/torchvision")
    assert steps[-1].argv[-1].startswith("torchvision==")
    (site / "torchvision/version.py").write_text("__version__ = '0.24.1+cu128'\n")
    assert severity(machine(site), "torchvision-mismatch") is None


def test_metadata_that_a_full_disk_left_empty_is_told(site):
    (record(site) / "METADATA").write_text("")
    assert severity(machine(site), "torch-install-interrupted") == "warning"


@pytest.mark.parametrize(("numpy", "severity_"), [("2.4.6", "error"), ("1.26.4", None)])
def test_numba_with_a_numpy_that_it_refuses(site, numpy, severity_):
    remove(site, "numpy")
    write_distribution(site, "numba", "0.59.1", requires=("numpy<1.27,>=1.22",), files={"numba/__init__.py": "#"})
    write_distribution(site, "numpy", numpy, files={"numpy/__init__.py": "#"})
    assert severity(machine(site), "requirements-incomplete") == severity_
    if severity_:
        assert remedies(machine(site), "requirements-incomplete") == ["ReplacePackage numpy<1.27,>=1.22"]


def test_where_no_version_suits_all_the_one_that_refuses_it_is_replaced(site):
    remove(site, "numpy")
    write_distribution(site, "numba", "0.59.1", requires=("numpy<1.27,>=1.22",), files={"numba/__init__.py": "#"})
    write_distribution(site, "jax", "0.6.2", requires=("numpy>=2.0,<2.7",), files={"jax/__init__.py": "#"})
    write_distribution(site, "numpy", "2.4.6", files={"numpy/__init__.py": "#"})
    found = machine(site)
    message = finding(found, "requirements-incomplete").message
    assert "numba 0.59.1 needs numpy<1.27,>=1.22 (2.4.6 is installed)" in message
    fixes = fixes_for(finding(found, "requirements-incomplete"), Situation(found, matrix()))
    assert "Install a release of numba that admits numpy 2.4.6" in fixes[0].steps[0].text


def test_a_jaxlib_alone_is_no_jax(site):
    remove(site, "torch")
    write_distribution(site, "jaxlib", "0.5.3", files={"jaxlib/__init__.py": "#"})
    assert machine(site).environment.value.frameworks.others == ()


def test_a_folder_that_this_user_may_not_read_is_opened_and_not_installed_again(site):
    listed = machine(site).environment.value.distributions.value
    closed = (DamagedFile(path=f"{site}/sympy/__init__.py", problem="unreadable"),)
    shut = tuple(replace(one, damaged=closed) if one.name == "sympy" else one for one in listed)
    environment = machine(site).environment.value.distributions
    found = with_environment(machine(site), distributions=replace(environment, value=shut))
    assert "sympy 1.14.0 (this user may not read its files)" in finding(found, "requirements-incomplete").message
    assert f"read {site}/sympy and" in finding(found, "requirements-incomplete").fixes[0].remedies[0].text


def test_what_a_record_lists_in_a_closed_folder_is_unreadable(site, monkeypatch):
    host = LiveHost()
    denied = Fact(state="denied", source="sympy", why="Permission denied")
    monkeypatch.setattr(host, "stat", lambda path: denied)
    assert damage(host, f"{site}/sympy/__init__.py", 1).problem == "unreadable"


def test_a_library_of_another_release_of_cudnn_is_no_missing_system_package(site):
    shutil.rmtree(next(site.glob("nvidia_cudnn_cu12-*.dist-info")))
    write_distribution(site, "nvidia-cudnn-cu12", "8.9.2.26", files={"nvidia/cudnn/lib/libcudnn.so.8": b"x"})
    error = "ImportError: libcudnn.so.9: cannot open shared object file: No such file or directory"
    found = judged(machine(site, ImportTrial(ok=False, error=error))).findings
    assert found[0].slug == "cudnn-mismatch"
    assert "apt-file" not in str([one.fixes for one in found])


_RAPIDS = {
    "rmm-cu12": ("librmm-cu12",),
    "librmm-cu12": (),
    "libcudf-cu12": ("librmm-cu12",),
    "cudf-cu12": ("libcudf-cu12", "rmm-cu12"),
}


@pytest.mark.parametrize(
    ("old", "wanted"),
    [
        ((), ()),
        (("libcudf-cu12", "cudf-cu12"), ("librmm-cu12==25.10.*", "rmm-cu12==25.10.*")),
        (("librmm-cu12", "libcudf-cu12", "cudf-cu12"), ("rmm-cu12==25.10.*",)),
        (("rmm-cu12",), ("rmm-cu12==25.12.*",)),  # what the old one requires goes with it
        (("rmm-cu12", "librmm-cu12", "libcudf-cu12"), ("libcudf-cu12==25.12.*", "rmm-cu12==25.12.*")),
    ],
)
def test_rapids_of_two_releases_becomes_one(tmp_path, old, wanted):
    site = write_venv(tmp_path / "venv")
    for name, needs in _RAPIDS.items():
        release = "25.10" if name in old else "25.12"
        write_distribution(site, name, f"{release}.0", requires=tuple(f"{one}=={release}.*" for one in needs))
    found = [one for one in judged(machine(site)).findings if one.slug == "requirements-incomplete"]
    asked = [f"{one.name}{one.specifier}" for each in found for one in each.fixes[0].remedies]
    assert ([one.severity for one in found], asked) == (["warning"] * bool(wanted), list(wanted))


def test_a_keras_that_is_missing_takes_only_tensorflows_keras_away(tmp_path):
    site = write_venv(tmp_path / "venv")
    write_distribution(site, "tensorflow", "2.19.0", requires=("keras>=3.5",))
    message = next(one.message for one in judged(machine(site)).findings if one.slug == "requirements-incomplete")
    assert message.endswith("`import tensorflow.keras` fails.")


def test_a_missing_cuda_toolkit_is_the_cause_where_the_libraries_that_it_pins_are_gone(site: Path) -> None:
    record = site / "torch-2.9.1.dist-info/METADATA"
    record.write_text(
        record.read_text().replace("Name: torch", "Name: torch\nRequires-Dist: cuda-toolkit[cufft]==13.0.3")
    )
    assert "requirements-incomplete" not in [slug for slug, _ in told(machine(site))], "it has no files of its own"
    error = "ImportError: libcufft.so.12: cannot open shared object file: No such file or directory"
    lost = machine(site, ImportTrial(ok=False, error=error))
    lost = with_torch(lost, needs_libraries=("libcufft.so.12",))
    assert told(lost)[0] == ("requirements-incomplete", "error")
    (remedy,) = finding(lost, "requirements-incomplete").fixes[0].remedies
    assert isinstance(remedy, ReplacePackage) and (remedy.name, remedy.extra) == ("cuda-toolkit", "cufft")
    assert [type(planned.step) for planned in plan_of(lost).steps] == [RunStep], "nothing is left to a person"


@pytest.mark.parametrize(("package", "module"), [("cupy-cuda13x", "cupy"), ("onnxruntime-gpu", "onnxruntime")])
def test_a_package_that_needs_another_is_named_as_it_is_imported(site, package, module):
    write_distribution(site, package, "14.2.0", requires=("numpy>=2",), files={f"{module}/__init__.py": "#"})
    remove(site, "numpy")
    assert f"`import {module}` fails" in finding(machine(site), "requirements-incomplete").message
