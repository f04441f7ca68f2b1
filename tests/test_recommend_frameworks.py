"""`recommend --framework`: the build of JAX, ONNX Runtime ... that a machine should have, and why not the others."""

from __future__ import annotations

import json
from typing import Any

import click
import pytest
from click.testing import CliRunner

from gpudoctor.cli import gpudoctor


def run(framework: str, *arguments: str) -> tuple[int, dict[str, Any]]:
    command = ["recommend", "--framework", framework, "--format", "json", "--python-version", "3.12", *arguments]
    result = CliRunner().invoke(gpudoctor, command, standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result.return_value, json.loads(result.stdout)


def packages(answer: dict[str, Any]) -> list[str]:
    return [choice["package"] for choice in answer["choices"]]


def why_not(answer: dict[str, Any], distribution: str) -> str:
    return next(row["why"] for row in answer["rejected"] if row["package"].startswith(distribution))


def test_the_driver_decides_between_two_builds_for_one_gpu():
    code, old = run("jax", "--gpu", "RTX 5090", "--driver", "570.133.07")
    assert code == 0
    assert old["framework"] == "JAX"
    assert packages(old)[0].startswith("jax[cuda12]==")
    assert "needs driver 580" in why_not(old, "jax[cuda13]")
    _, new = run("jax", "--gpu", "RTX 5090", "--driver", "580.95.05")
    assert packages(new)[0].startswith("jax[cuda13]==")


def test_a_gpu_that_a_build_has_no_code_for_gets_another_build():
    _, answer = run("jax", "--gpu", "GTX 1080", "--driver", "580.95.05")
    assert packages(answer)[0].startswith("jax[cuda12]==")
    assert why_not(answer, "jax[cuda13]") == "no code for sm_61"


def test_nothing_is_proposed_where_no_wheel_has_code():
    code, answer = run("onnxruntime", "--gpu", "GB10", "--driver", "580.95.05")
    assert code == 1
    assert packages(answer) == ["onnxruntime"]
    assert answer["choices"][0]["level"] == "cpu"


def test_a_driver_that_runs_no_build_is_replaced_first():
    code, answer = run("tensorflow", "--gpu", "RTX 3060", "--driver", "470.82.01")
    assert code == 1
    (fix,) = answer["otherwise"]
    assert "CUDA 12.5" in fix["title"]
    assert "tensorflow[and-cuda]" in " ".join(fix["steps"][-1]["argv"])


def test_an_amd_gpu_gets_amds_build_or_is_told_that_none_can_be_installed():
    code, answer = run("cupy", "--gpu", "MI300X")
    assert code == 0
    assert packages(answer) == ["cupy-rocm-7-0==14.2.0"]
    code, answer = run("jax", "--gpu", "RX 7900 XTX", "--python-version", "3.12")
    assert code == 0
    assert packages(answer)[0] == "jax-rocm7-plugin==0.12.0"


def test_each_vendors_gpu_gets_its_build():
    code, answer = run("cupy", "--gpu", "RTX 3060", "--gpu", "RX 7900 XTX", "--driver", "580.95.05")
    assert code == 0
    assert {name.partition("==")[0] for name in packages(answer)} == {
        "cupy-cuda13x[ctk]",
        "cupy-cuda12x[ctk]",
        "cupy-rocm-7-0",
    }


def test_what_is_not_measured_is_not_called_native():
    _, answer = run("numba-cuda", "--gpu", "RTX 3060", "--driver", "550.54.14")
    assert answer["choices"][0]["level"] == "unmeasured"


def test_the_python_decides_too():
    _, answer = run("jax", "--gpu", "RTX 3060", "--driver", "580.95.05", "--python-version", "3.10")
    assert packages(answer) == ["jax"]
    assert "Python 3.10" in why_not(answer, "jax[cuda12]")


def test_a_framework_that_nobody_knows_is_told():
    with pytest.raises(click.BadParameter, match="did you mean `jax`"):
        run("jaxx", "--gpu", "RTX 3060")
    with pytest.raises(click.UsageError, match="torch alone"):
        run("jax", "--gpu", "RTX 3060", "--with", "torchvision")
