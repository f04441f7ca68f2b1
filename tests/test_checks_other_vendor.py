"""A second Triton beside torch's own, and an amdsmi of another ROCm than its library."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from gpudoctor.host import LiveHost
from gpudoctor.machine import ImportTrial, MissingSymbols, known
from gpudoctor.probes.python_environment import probe_environment
from tests.support.environments import write_distribution, write_torch, write_venv
from tests.support.judging import finding, remedies, severity
from tests.support.machines import amd_machine, change, nvidia_machine, torch, with_environment, with_torch

WRAPPER = "/venv/lib/python3.12/site-packages/amdsmi/amdsmi_wrapper.py"


def requiring(machine, *requires, **parts):
    listed = machine.environment.value.distributions
    own = tuple(change(d, requires=requires) if d.name == "torch" else d for d in listed.value)
    return with_environment(machine, distributions=known(own, listed.source), **parts)


# --- Triton ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("owner", "weight"), [("", "warning"), ("triton", "warning"), ("pytorch-triton-rocm", "note")]
)
def test_a_triton_for_cuda_beside_that_of_a_rocm_torch(owner, weight):
    both = amd_machine(packages={"pytorch-triton-rocm": "3.5.1", "triton": "3.5.1"})
    machine = requiring(both, "pytorch-triton-rocm==3.5.1", triton_owner=owner)
    assert severity(machine, "triton-overwritten") == weight
    assert remedies(machine, "triton-overwritten") == [
        "RemovePackage triton",
        "ReinstallPackage pytorch-triton-rocm3.5.1",
    ]
    index = finding(machine, "triton-overwritten").fixes[0].remedies[1].index_url
    assert index.endswith("/rocm6.4")


def test_a_triton_for_rocm_beside_that_of_a_cuda_torch():
    both = nvidia_machine(packages={"pytorch-triton-rocm": "3.5.1", "triton": "3.5.1"})
    machine = requiring(both, 'triton (==3.5.1) ; platform_system == "Linux"')
    assert remedies(machine, "triton-overwritten")[0] == "RemovePackage pytorch-triton-rocm"


def test_the_one_triton_that_torch_requires_or_another_one_alone_is_silent():
    for packages in ({"triton": "3.5.1"}, {"pytorch-triton": "3.5.1"}, {}):
        machine = requiring(nvidia_machine(packages=packages), "triton==3.5.1")
        assert severity(machine, "triton-overwritten") is None
    nightly = requiring(nvidia_machine(packages={"pytorch-triton": "3.6.0"}), "pytorch-triton==3.6.0+git1234")
    assert severity(nightly, "triton-overwritten") is None


def test_whose_triton_is_there(tmp_path):
    site = write_venv(tmp_path / "venv")
    library, module = "triton/_C/libtriton.so", "triton/__init__.py"

    def owner():
        return probe_environment(LiveHost(), str(tmp_path / "venv"), {}).value.triton_owner

    write_distribution(site, "triton", "3.5.1", files={library: b"cuda", module: "__version__ = '3.5.1'\n"})
    assert owner() == ""
    write_distribution(site, "pytorch-triton-rocm", "3.5.1", files={library: b"for rocm"})
    assert owner() == "pytorch-triton-rocm"
    (site / library).write_bytes(b"cuda")
    assert owner() == "triton"
    (site / library).write_bytes(b"of neither")
    assert owner() == ""
    (site / "pytorch_triton_rocm-3.5.1.dist-info").rename(site / "pytorch_triton_rocm-3.4.0.dist-info")
    metadata = site / "pytorch_triton_rocm-3.4.0.dist-info/METADATA"
    metadata.write_text(metadata.read_text().replace("3.5.1", "3.4.0"))
    assert owner() == "triton"


# --- amdsmi ----------------------------------------------------------------------------------------


def amdsmi(library, version="7.0.2", **parts):
    missing = MissingSymbols(library="libamd_smi.so", path=library, needed_by=WRAPPER, symbols=("amdsmi_get_new",))
    machine = amd_machine(packages={"amdsmi": version}, **parts)
    return with_environment(machine, missing_symbols=(missing,))


def test_an_amdsmi_of_a_newer_rocm_than_its_library():
    machine = amdsmi("/opt/rocm-6.4.1/lib/libamd_smi.so")
    assert severity(machine, "amdsmi-mismatch") == "error"
    assert remedies(machine, "amdsmi-mismatch") == ["ReplacePackage amdsmi==6.4.*"]
    assert remedies(machine, "amdsmi-mismatch", 1) == ["RemovePackage amdsmi"]
    unknown_release = amdsmi("/opt/rocm/lib/libamd_smi.so")
    assert remedies(unknown_release, "amdsmi-mismatch") == ["RemovePackage amdsmi"]
    works = with_torch(machine, trial=known(ImportTrial(ok=True), "child"))
    assert severity(works, "amdsmi-mismatch") is None


def test_a_torch_for_cuda_does_not_import_amdsmi():
    machine = with_environment(
        nvidia_machine(torch=torch("2.9.1+cu128"), packages={"amdsmi": "7.0.2"}),
        missing_symbols=amdsmi("/opt/rocm-6.4.1/lib/libamd_smi.so").environment.value.missing_symbols,
    )
    assert severity(machine, "amdsmi-mismatch") is None
    assert severity(machine, "ld-library-path-shadow") is None


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler to build the libraries with")
def test_the_functions_that_amdsmi_looks_up_and_those_of_its_library(tmp_path):
    site = write_venv(tmp_path / "venv")
    package = write_torch(site, "2.9.1+rocm6.4", None, "6.4.43482")
    wrapper = "\n".join(f"{name} = _libraries['libamd_smi.so'].{name}" for name in ("amdsmi_init", "amdsmi_get_new"))
    write_distribution(site, "amdsmi", "7.0.2", files={"amdsmi/amdsmi_wrapper.py": wrapper})

    def missing(**variables: str) -> list[tuple[str, tuple[str, ...]]]:
        found = probe_environment(LiveHost(), str(tmp_path / "venv"), variables).value
        return [(one.path, one.symbols) for one in found.missing_symbols]

    old = library(tmp_path / "old/lib/libamd_smi.so", "amdsmi_init")
    new = library(tmp_path / "new/lib/libamd_smi.so", "amdsmi_init", "amdsmi_get_new")
    assert missing(ROCM_PATH=str(old.parents[1])) == []  # this torch does not import amdsmi
    (package / "cuda").mkdir()
    (package / "cuda/__init__.py").write_text("    import amdsmi  # type: ignore[import]\n")
    assert missing(ROCM_PATH=str(old.parents[1])) == [(str(old), ("amdsmi_get_new",))]
    assert missing(ROCM_PATH=str(new.parents[1])) == []
    assert missing(LD_LIBRARY_PATH=str(old.parent)) == [(str(old), ("amdsmi_get_new",))]
    assert missing(LD_LIBRARY_PATH=f"{new.parent}:{old.parent}") == []
    own = library(package / "lib/libamd_smi.so", "amdsmi_init")
    assert missing(LD_LIBRARY_PATH=str(new.parent)) == [(str(own), ("amdsmi_get_new",))]


def library(path: Path, *functions: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    source = path.with_suffix(".c")
    source.write_text("".join(f"int {name}(void) {{ return 0; }}\n" for name in functions))
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(path), str(source)], check=True)
    return path
