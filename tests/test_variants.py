"""`variants`: what uv, conda and wheel variants ask of a machine, and where they differ."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from click.testing import Result
from msgspec.structs import replace

from gpudoctor.machine import NvidiaStack
from gpudoctor.matrix.load import load_matrix
from gpudoctor.recommend.variants import variants
from gpudoctor.situation import Situation
from tests.support.in_process import invoked
from tests.support.machines import nvidia_gpu, nvidia_machine


def run(*arguments: str) -> Result:
    return invoked("variants", *arguments)


def asked(*arguments: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(run("--format", "json", *arguments).stdout)
    return answer


def set_by(answer: dict[str, Any]) -> dict[str, str]:
    return {name: value for one in answer["installers"] for name, value in one["variables"].items()}


def values(answer: dict[str, Any], feature: str) -> list[str]:
    return next((one["values"] for one in answer["properties"] if one["feature"] == feature), [])


def test_each_installer_gets_what_it_asks_for():
    answer = asked("--gpu", "RTX 5090", "--driver", "570.133.07")
    assert set_by(answer) == {
        "UV_CUDA_DRIVER_VERSION": "570.133.07",
        "CONDA_OVERRIDE_CUDA": "12.8",
        "CONDA_OVERRIDE_CUDA_ARCH": "12.0",
        "NV_VARIANT_PROVIDER_FORCE_CUDA_DRIVER_VERSION": "12.8",
        "NV_VARIANT_PROVIDER_FORCE_SM_ARCH": "12.0",
    }


def test_the_properties_are_those_of_nvidias_own_provider():
    # Read from nvidia-variant-provider 0.0.2 with the same versions forced.
    answer = asked("--gpu", "GTX 1080", "--driver", "520.61.05")
    assert values(answer, "cuda_version_lower_bound") == [*(f"11.{n}" for n in range(8, -1, -1)), "11"]
    above = values(answer, "cuda_version_upper_bound")
    assert (above[0], above[-1], len(above), "11" in above, "12" in above) == ("15.20", "11.9", 100, False, True)
    assert values(answer, "sm_arch") == ["61_real", "60_real", "60_virtual"]


def test_gpus_that_differ_are_told():
    answer = asked("--gpu", "RTX 3090", "--gpu", "RTX 5090", "--gpu", "RX 7900 XTX", "--driver", "580.95.05")
    assert set_by(answer)["CONDA_OVERRIDE_CUDA_ARCH"] == "8.6"
    assert set_by(answer)["NV_VARIANT_PROVIDER_FORCE_SM_ARCH"] == "12.0"
    assert set_by(answer)["AMD_VARIANT_PROVIDER_FORCE_GFX_ARCH"] == "gfx1100"
    assert "UV_AMD_GPU_ARCHITECTURE" not in set_by(answer)
    told = " ".join(answer["disagreements"])
    assert "RX 7900 XTX gets no build" in told
    assert "conda takes compute capability 8.6" in told


def test_uv_takes_the_first_amd_gpu_that_it_knows():
    answer = asked("--gpu", "gfx1036", "--gpu", "gfx1100")
    assert set_by(answer)["UV_AMD_GPU_ARCHITECTURE"] == "gfx1100"


def test_a_gpu_that_an_installer_does_not_know_is_told():
    answer = asked("--gpu", "RX 6700 XT")
    assert answer["installers"] == []
    assert any(told.startswith("uv does not know gfx1031") for told in answer["disagreements"])


def test_a_variable_that_is_set_is_taken_for_the_machine():
    said = run("--gpu", "RTX 3060", "--driver", "550.54.14", "--env", "UV_CUDA_DRIVER_VERSION=580.1").stdout
    assert "UV_CUDA_DRIVER_VERSION=580.1 is set here" in said


def test_a_shell_reads_the_lines():
    lines = run("--gpu", "RTX 3060", "--driver", "550.54.14", "--format", "shell").stdout
    done = subprocess.run(
        ["sh", "-c", f'{lines}printf "%s" "$CONDA_OVERRIDE_CUDA_ARCH"'], capture_output=True, text=True, check=True
    )
    assert done.stdout == "8.6"


def test_an_unknown_driver_is_said_and_not_made_up():
    machine = replace(nvidia_machine(nvidia_gpu("NVIDIA GeForce RTX 3060", "sm_86")), nvidia=NvidiaStack())
    answer = variants(Situation(machine, load_matrix(())))
    assert "the version of the NVIDIA driver" in answer.unknown
    named = {name for one in answer.installers for name in one.variables}
    assert named == {"CONDA_OVERRIDE_CUDA_ARCH", "NV_VARIANT_PROVIDER_FORCE_SM_ARCH"}
