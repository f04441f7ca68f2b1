"""vLLM, SGLang and FlashInfer: the releases that they pin, and `recommend --framework` for them."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from gpudoctor.cli import gpudoctor
from gpudoctor.finding import Manual, RemovePackage, ReplacePackage
from gpudoctor.machine import Distribution, Extension, known
from tests.support.check_cases import found
from tests.support.machines import change, nvidia_machine, torch, with_environment

VLLM = ("vllm", "0.33.0", "torch==2.14.0", "flashinfer-python==0.7.2.post1")
SGLANG = ("sglang", "0.5.23", "torch==2.14.1", "flashinfer_python[cu13]==0.7.2", "sglang-kernel==0.4.10")


def machine(release: str, *packages: tuple[str, ...], **environment):
    """A machine with that torch and these packages: name, version, requirements."""
    listed = [Distribution("torch", release, "/site/torch.dist-info", installer="pip")]
    listed += [Distribution(one[0], one[1], f"/site/{one[0]}.dist-info", requires=one[2:]) for one in packages]
    patient = nvidia_machine(torch=torch(release, cuda="13.0", build="cu130"), driver="580.95.05")
    listing = known(tuple(sorted(listed, key=lambda one: one.name)), "test")
    return with_environment(patient, distributions=listing, **environment)


def severities(patient, slug: str) -> list[str]:
    return [one.severity for one in found(patient, slug)]


@pytest.mark.parametrize(
    ("release", "severity"),
    [("2.14.1", []), ("2.14.1+cu130", []), ("2.14.0", ["warning"]), ("2.9.1", ["error"]), ("2.14.1+git123", [])],
)
def test_the_torch_that_sglang_requires(release, severity):
    assert severities(machine(release, SGLANG), "sglang-torch-mismatch") == severity


def test_a_kernel_library_that_finds_all_its_symbols_is_no_error():
    kernel = Extension("sglang-kernel", "0.4.10", "/site/sgl_kernel/common_ops.abi3.so", of_torch=True)
    patient = machine("2.13.0", SGLANG, ("sglang-kernel", "0.4.10"), extensions=(kernel,))
    assert severities(patient, "sglang-torch-mismatch") == ["warning"]
    lacking = change(kernel, undefined=("_ZN3c104cuda9SetDeviceEab",))
    broken = machine("2.14.1", SGLANG, ("sglang-kernel", "0.4.10"), extensions=(lacking,))
    assert severities(broken, "sglang-torch-mismatch") == ["error"]


def test_no_torch_suits_vllm_and_sglang():
    """The fix for one would break the other."""
    finding = found(machine("2.14.0", SGLANG, VLLM), "sglang-torch-mismatch")[0]
    assert "vllm 0.33.0 also requires another torch" in finding.message
    assert isinstance(finding.fixes[0].remedies[0], Manual)
    assert "environment of its own" in finding.fixes[0].remedies[0].text
    alone = found(machine("2.14.0", SGLANG), "sglang-torch-mismatch")[0]
    assert "vllm" not in alone.message


def test_two_that_pin_the_same_torch_are_no_rivals():
    same = ("vllm", "0.34.0", "torch==2.14.1")
    finding = found(machine("2.14.0", SGLANG, same), "sglang-torch-mismatch")[0]
    assert "vllm" not in finding.message


@pytest.mark.parametrize(("kernel", "count"), [("0.4.6", 1), ("0.4.10", 0), ("0.4.11", 0)])
def test_sglang_refuses_only_an_older_kernel(kernel, count):
    problems = found(machine("2.14.1", SGLANG, ("sglang-kernel", kernel)), "requirements-incomplete")
    assert len(problems) == count
    for one in problems:
        assert one.severity == "warning"
        assert [remedy.specifier for remedy in one.fixes[0].remedies] == ["==0.4.10"]


def test_vllm_pins_flashinfer_exactly():
    for version, count in (("0.7.2.post1", 0), ("0.8.0", 1), ("0.6.0", 1)):
        patient = machine("2.14.0", VLLM, ("flashinfer-python", version))
        assert len(found(patient, "requirements-incomplete")) == count, version


# --- one release -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("python", "kernels", "severity"),
    [
        ("0.7.2.post1", {"flashinfer-cubin": "0.7.2.post1", "flashinfer-jit-cache": "0.7.2.post1+cu130"}, []),
        ("0.6.13", {"flashinfer-cubin": "0.6.12"}, ["error"]),
        ("0.7.2", {"flashinfer-jit-cache": "0.7.1+cu130"}, ["error"]),
        ("0.0.0+unknown", {"flashinfer-cubin": "0.7.2"}, []),
        ("0.7.2", {}, []),
    ],
)
def test_flashinfer_compares_the_releases_of_its_kernels(python, kernels, severity):
    patient = machine("2.14.0", ("flashinfer-python", python), *kernels.items())
    assert severities(patient, "packages-of-different-releases") == severity
    for finding in found(patient, "packages-of-different-releases"):
        (fix,) = finding.fixes[0].remedies
        assert isinstance(fix, ReplacePackage)
        assert (fix.name, fix.specifier) == (next(iter(kernels)), f"=={python}")
    silenced = change(patient, variables={"FLASHINFER_DISABLE_VERSION_CHECK": "1"})
    assert severities(silenced, "packages-of-different-releases") == []


def test_kernels_of_flashinfer_that_the_index_no_longer_has_are_removed():
    for python in ("0.6.14", "0.7.2.post1"):
        jit = ("flashinfer-jit-cache", "0.6.13+cu130")
        patient = machine("2.14.0", ("flashinfer-python", python), ("flashinfer-cubin", "0.6.13"), jit)
        first, second = found(patient, "packages-of-different-releases")[0].fixes[0].remedies
        assert (type(first), first.name) == (RemovePackage, "flashinfer-cubin")
        assert (second.name, second.specifier) == ("flashinfer-jit-cache", f"=={python}")


# --- recommend --------------------------------------------------------------------------------------------


def recommended(name: str, gpu: str, *options: str) -> str:
    arguments = ["recommend", "--framework", name, "--gpu", gpu, "--python-version", "3.12", *options]
    return CliRunner().invoke(gpudoctor, arguments, standalone_mode=False).output


def test_a_model_server_is_recommended_with_the_torch_that_it_brings():
    screen = recommended("vllm", "RTX 4090", "--driver", "580.95.05")
    assert "vllm==0.33.0" in screen
    assert "requires torch ==2.14.0" in screen


@pytest.mark.parametrize(
    ("name", "gpu", "options", "words"),
    [
        ("vllm", "RTX 4090", ("--driver", "570.133.07"), "CUDA 13 needs driver 580"),
        ("vllm", "RTX 4090", ("--driver", "570.133.07"), "vllm==0.19.1 built for CUDA 12 requires torch ==2.10.0"),
        ("vllm", "RTX 4090", ("--driver", "570.133.07", "--python-version", "3.14"), "Driver 580, then vLLM's build"),
        ("sglang", "RTX 2080", ("--driver", "580.95.05"), "no code for sm_75"),
        ("vllm", "RX 7900 XTX", (), "for NVIDIA GPUs"),
        ("bitsandbytes", "RX 6700 XT", (), "bitsandbytes==0.50.2"),
        ("bitsandbytes", "A100", ("--torch", "2.14.0+cu130"), "bitsandbytes==0.50.2"),
        ("bitsandbytes", "A100", ("--torch", "2.2.2+cu121"), "bitsandbytes==0.47.0"),
        ("bitsandbytes", "A100", ("--torch", "2.2.2+cu121"), "0.50.2, does not go with torch 2.2.2+cu121"),
        ("bitsandbytes", "MI100", ("--torch", "2.2.2+rocm5.7"), "no release goes with torch 2.2.2+rocm5.7"),
    ],
)
def test_what_a_library_supports_decides(name, gpu, options, words):
    assert words in " ".join(recommended(name, gpu, *options).split())
