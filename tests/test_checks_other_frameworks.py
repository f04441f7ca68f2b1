"""Packages of ONNX Runtime and JAX that do not go together."""

from __future__ import annotations

import pytest

from gpudoctor.finding import RemovePackage
from gpudoctor.machine import Distribution, known
from gpudoctor.planner.effects import effect
from gpudoctor.situation import Situation
from tests.support.check_cases import found, matrix, remedies
from tests.support.machines import amd_machine, change, nvidia_machine, torch, with_environment


def test_both_packages_of_onnx_runtime_are_an_error_where_a_gpu_is():
    both = {"onnxruntime": "1.23.0", "onnxruntime-gpu": "1.22.0"}
    finding = found(nvidia_machine(packages=both), "ort-cpu-and-gpu-both")[0]
    assert finding.severity == "error"
    assert remedies(finding) == ["RemovePackage", "ReinstallPackage"]
    assert [
        one.severity for one in found(change(nvidia_machine(packages=both), gpus=()), "ort-cpu-and-gpu-both")
    ] == ["note"]


def test_packages_of_which_none_is_for_the_gpu_here_are_only_noted():
    both = {"onnxruntime": "1.23.0", "onnxruntime-gpu": "1.22.0"}
    assert [one.severity for one in found(amd_machine(packages=both), "ort-cpu-and-gpu-both")] == ["note"]
    plugins = {f"jax-cuda{cuda}-{part}": "0.9.0" for cuda in (12, 13) for part in ("plugin", "pjrt")}
    assert [one.severity for one in found(amd_machine(packages=plugins), "jax-plugins-of-two-cudas")] == ["note"]
    assert [one.severity for one in found(nvidia_machine(packages=plugins), "jax-plugins-of-two-cudas")] == [
        "warning"
    ]


def test_the_libraries_of_two_cudas_are_one_problem_with_one_fix():
    pairs = {
        "nvidia-cudnn-cu12": "9.10.2.21",
        "nvidia-cudnn-cu13": "9.26.0.51",
        "nvidia-nccl-cu12": "2.27.5",
        "nvidia-nccl-cu13": "2.30.7",
    }
    (problem,) = found(nvidia_machine(packages=pairs), "packages-overwrite-each-other")
    (fix,) = problem.fixes
    assert [one.name for one in fix.remedies] == [
        "nvidia-cudnn-cu13",
        "nvidia-nccl-cu13",
        "nvidia-cudnn-cu12",
        "nvidia-nccl-cu12",
    ]
    assert [type(one).__name__ for one in fix.remedies] == ["RemovePackage"] * 2 + ["ReinstallPackage"] * 2


def test_a_framework_for_another_cuda_than_torchs_goes_with_torch():
    packages = {
        "jax": "0.12.0.1",
        "jaxlib": "0.12.0.1",
        "jax-cuda12-plugin": "0.12.0.1",
        "jax-cuda12-pjrt": "0.12.0.1",
        "nvidia-cudnn-cu12": "9.28.0.42",
        "nvidia-cudnn-cu13": "9.26.0.51",
    }
    there = nvidia_machine(torch=torch("2.13.0+cu130"), packages=packages)
    (problem,) = found(there, "packages-overwrite-each-other")
    (fix,) = problem.fixes
    kinds = {type(one).__name__: one for one in fix.remedies}
    assert kinds["ReplacePackage"].extra == "cuda13"
    assert kinds["ReinstallPackage"].name == "nvidia-cudnn-cu13"
    assert "nvidia-cudnn-cu12" in [one.name for one in fix.remedies]


@pytest.mark.parametrize(
    ("cuda", "python", "chosen"),
    [
        ("2.14.1+cu130", "3.11", "==1.31.1"),
        ("2.9.1+cu128", "3.11", "==1.23.2"),
        ("2.14.1+cu130", "3.10", "alone"),  # for Python 3.10 there is only the build for CUDA 12
    ],
)
def test_no_build_is_proposed_whose_libraries_replace_the_cudnn_of_torch(cuda: str, python: str, chosen: str):
    there = nvidia_machine(torch=torch(cuda), packages={"onnxruntime": "1.23.2"}, python=python)
    (problem,) = found(there, "framework-cpu-only")
    (last, *_) = reversed(problem.fixes[0].remedies)
    assert chosen in getattr(last, "specifier", "") + getattr(last, "text", "")


@pytest.mark.parametrize("packages", [{"onnxruntime": "1.23.0"}, {"onnxruntime-gpu": "1.22.0"}])
def test_one_package_of_onnx_runtime_is_silent(packages):
    assert found(nvidia_machine(packages=packages), "ort-cpu-and-gpu-both") == []


@pytest.mark.parametrize(
    ("jaxlib", "plugin", "silent"),
    [
        ("0.12.0.1", "0.12.0", False),
        ("0.12.0", "0.12.0", True),
        ("0.12.0", "0.12.0.post1", True),
        ("0.12.0", "0.11.2", False),
        ("0.12.1", "0.12.0", False),
        ("0.12.10", "0.12.1", False),
    ],
)
def test_a_plugin_of_jax_has_the_release_of_jaxlib(jaxlib, plugin, silent):
    machine = nvidia_machine(packages={"jaxlib": jaxlib, "jax-cuda12-plugin": plugin, "jax-cuda12-pjrt": plugin})
    assert (found(machine, "jax-plugin-mismatch") == []) is silent


def test_a_plugin_that_jax_leaves_alone_beside_the_right_one_goes():
    right = {f"jax-cuda12-{part}": "0.6.2" for part in ("plugin", "pjrt")}
    machine = nvidia_machine(packages={"jax": "0.6.2", "jaxlib": "0.6.2", **right, "jax-cuda13-plugin": "0.7.2"})
    lacking = with_environment(machine, not_installed=("jax-cuda13-pjrt",))
    (problem,) = found(lacking, "jax-plugin-mismatch")
    assert (problem.severity, [one.name for one in problem.fixes[0].remedies]) == ("warning", ["jax-cuda13-plugin"])
    assert "takes jax-cuda12-plugin" in problem.message
    assert found(lacking, "jax-plugins-of-two-cudas") == found(lacking, "requirements-incomplete") == []


def test_a_plugin_whose_cuda_came_after_jaxlibs_release_brings_its_own_jax():
    machine = nvidia_machine(packages={"jax": "0.6.2", "jaxlib": "0.6.2", "jax-cuda13-plugin": "0.7.2"})
    (problem,) = found(machine, "jax-plugin-mismatch")
    new, jaxlib = problem.fixes[0].remedies
    assert (problem.severity, new.name, new.specifier, new.extra) == ("error", "jax", "==0.7.2", "cuda13")
    assert (jaxlib.name, jaxlib.specifier) == ("jaxlib", "==0.7.2")


@pytest.mark.parametrize(
    "plugins",
    [
        {"jax-cuda13-plugin": "0.7.2"},
        {"jax-cuda12-pjrt": "0.7.0", "jax-cuda13-plugin": "0.7.2"},
        {"jax-cuda12-plugin": "0.6.2", "jax-cuda13-plugin": "0.7.2"},
        {"jax-cuda12-plugin": "0.6.2", "jax-cuda12-pjrt": "0.6.2"},
    ],
)
def test_the_fix_for_a_plugin_of_another_release_leaves_one_plugin_that_jax_takes(plugins):
    machine = nvidia_machine(packages={"jax": "0.7.0", "jaxlib": "0.7.0", **plugins})
    (problem,) = found(machine, "jax-plugin-mismatch")
    assert problem.severity == "error" and "computes on the CPU" in problem.message
    for remedy in problem.fixes[0].remedies:
        machine = effect(remedy, Situation(machine, matrix())).machine
    assert found(machine, "jax-plugin-mismatch") == found(machine, "jax-plugins-of-two-cudas") == []
    assert any(one.name.endswith("-plugin") for one in machine.packages)


_TWO = {f"jax-cuda{cuda}-{part}": "0.8.1" for cuda in (12, 13) for part in ("plugin", "pjrt")}


@pytest.mark.parametrize(
    ("driver", "patient", "removed"),
    [
        ("580.95.05", None, "jax-cuda12"),
        ("580.95.05", torch("2.9.1+cu128"), "jax-cuda13"),
        ("580.95.05", torch("2.9.1+cu130"), "jax-cuda12"),
        ("550.54.14", None, "jax-cuda13"),
    ],
)
def test_plugins_of_two_cudas_are_a_warning_and_one_of_them_goes_whole(driver, patient, removed):
    machine = nvidia_machine(driver=driver, torch=patient, packages={"jax": "0.8.1", "jaxlib": "0.8.1", **_TWO})
    (problem,) = found(machine, "jax-plugins-of-two-cudas")
    assert problem.severity == "warning"
    assert {remedy.name for remedy in problem.fixes[0].remedies} == {f"{removed}-plugin", f"{removed}-pjrt"}
    alone = {name: version for name, version in _TWO.items() if not name.startswith(removed)}
    machine = nvidia_machine(driver=driver, packages={"jax": "0.8.1", "jaxlib": "0.8.1", **alone})
    assert found(machine, "jax-plugins-of-two-cudas") == []


def test_a_plugin_that_was_only_described_goes_with_its_pjrt():
    packages = {"jax": "0.8.1", "jaxlib": "0.8.1", "jax-cuda13-plugin": "0.8.1", "jax-cuda13-pjrt": "0.8.1"}
    machine = nvidia_machine(driver="550.54.14", torch=None, packages=packages)
    (problem,) = found(machine, "driver-too-old")
    fix = next(fix for fix in problem.fixes if "JAX" in fix.title)
    removed = [remedy.name for remedy in fix.remedies if isinstance(remedy, RemovePackage)]
    assert removed == ["jax-cuda13-plugin", "jax-cuda13-pjrt"]


def test_a_rocm_plugin_has_releases_of_its_own():
    packages = {"jaxlib": "0.12.0.1", "jax-rocm7-plugin": "0.12.0", "jax-rocm7-pjrt": "0.12.0"}
    assert found(nvidia_machine(packages=packages), "jax-plugin-mismatch") == []


@pytest.mark.parametrize(("missing", "severity"), [("ml-dtypes", "error"), ("jax-rocm7-pjrt", "error")])
def test_what_jax_and_its_plugin_require_is_looked_at_without_torch(missing, severity):
    requires = {
        "jax": ("jaxlib>=0.11", "ml_dtypes>=0.5.0", "libtpu==1.0; extra == 'tpu'"),
        "jax-rocm7-plugin": ("jax-rocm7-pjrt==0.12.0",),
    }
    versions = {"jax": "0.12.0", "jaxlib": "0.12.0", "ml-dtypes": "0.6.0", "jax-rocm7-plugin": "0.12.0"}
    there = {**versions, "jax-rocm7-pjrt": "0.12.0"}
    installed = tuple(
        Distribution(name, version, installer="pip", requires=requires.get(name, ()))
        for name, version in there.items()
        if name != missing
    )
    machine = with_environment(
        amd_machine(torch=None), distributions=known(installed, "/site"), not_installed=(missing,)
    )
    assert [one.severity for one in found(machine, "requirements-incomplete")] == [severity]
    whole = tuple(Distribution(name, version, installer="pip") for name, version in there.items())
    assert found(with_environment(machine, distributions=known(whole, "/site")), "requirements-incomplete") == []


def test_a_plugin_for_a_rocm_that_is_not_there_says_so():
    jax = {"jax": "0.5.0", "jaxlib": "0.5.0"}
    without = amd_machine(torch=None, packages=jax)
    without = change(without, amd=change(without.amd, rocm=known((), "/opt")))
    last = found(without, "framework-cpu-only")[0].fixes[-1]
    assert last.title == "Install ROCm 6 first"
    assert "jax-rocm60-plugin uses the ROCm of the system" in last.remedies[0].text
    assert not [
        fix for fix in found(nvidia_machine(torch=None, packages=jax), "framework-cpu-only")[0].fixes if fix.by_hand
    ]
