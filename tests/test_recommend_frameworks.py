"""`recommend --framework`: the build of JAX, ONNX Runtime ... that a machine should have, and why not the others."""

from __future__ import annotations

import json
from typing import Any

import click
import pytest
from click.testing import CliRunner

from gpudoctor.cli import gpudoctor
from tests.support.in_process import invoked


def run(framework: str, *arguments: str) -> tuple[int, dict[str, Any]]:
    command = ["recommend", "--framework", framework, "--format", "json", "--python-version", "3.12"]
    command += ["--container", "none", *arguments]
    result = invoked(*command)
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


def test_a_release_without_code_for_the_gpu_is_passed_over():
    """ONNX Runtime 1.23.0 and 1.29 on have no code for a B200, those between have it."""
    _, answer = run("onnxruntime", "--gpu", "B200", "--driver", "580.95.05")
    assert packages(answer)[0] == "onnxruntime-gpu[cuda,cudnn]==1.28.0"
    assert not any(package.endswith("==1.23.0") for package in packages(answer))


def test_packages_that_are_no_choice_are_named_however_many_they_are():
    command = ["recommend", "--framework", "onnxruntime", "--python-version", "3.12", "--gpu", "K80"]
    shown = CliRunner().invoke(gpudoctor, command).stdout
    assert "onnxruntime-gpu[cuda,cudnn] 1.22.0" in shown and " to  ()" not in shown


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
    assert packages(answer) == ["jax[cuda12]==0.6.2", "jax"]
    assert "no wheel for Python 3.10 in its newest release" in why_not(answer, "jax[cuda13]")


def test_a_framework_that_nobody_knows_is_told():
    with pytest.raises(click.BadParameter, match="did you mean `jax`"):
        run("jaxx", "--gpu", "RTX 3060")
    with pytest.raises(click.UsageError, match="torch alone"):
        run("jax", "--gpu", "RTX 3060", "--with", "torchvision")


@pytest.mark.parametrize(
    ("framework", "gpu", "python", "package"),
    [
        ("jax", "RTX 4090", "3.11", "jax[cuda13]==0.10.2"),
        ("jax", "MI300X", "3.11", "jax-rocm7-plugin==0.10.2"),
        ("vllm", "RTX 4090", "3.10", "vllm==0.31.0"),
        ("onnxruntime", "MI300X", "3.10", "onnxruntime-migraphx==1.24.2"),
    ],
)
def test_an_older_release_is_proposed_to_a_python_that_the_newest_has_no_wheel_for(framework, gpu, python, package):
    code, answer = run(framework, "--gpu", gpu, "--python-version", python)
    assert (code, packages(answer)[0]) == (0, package)
    assert any(f"has no wheel for Python {python}" in why for why in answer["choices"][0]["why"])


@pytest.mark.parametrize(("framework", "image"), [("vllm", "vllm/vllm-openai-rocm"), ("sglang", "lmsysorg/sglang")])
def test_what_comes_as_an_image_is_named(framework, image):
    code, answer = run(framework, "--gpu", "MI300X")
    assert (code, answer["choices"][0]["level"]) == (0, "manual")
    assert image in answer["choices"][0]["why"][0]
    code, answer = run(framework, "--gpu", "RX 580")
    assert (code, answer["choices"]) == (1, [])


def test_what_no_index_has_is_installed_by_its_own_instructions():
    code, answer = run("rapids", "--gpu", "T4")
    assert code == 0
    assert "cudf-cu13" in answer["choices"][0]["why"][0]


@pytest.mark.parametrize(
    ("framework", "gpu", "python", "code"),
    [
        ("onnxruntime", "RX 480", "3.12", 3),
        ("onnxruntime", "MI300X", "3.12", 0),
        ("llama-cpp", "RX 480", "3.12", 3),
        ("tensorflow", "K80", "3.11", 0),  # the wheel of 2.14.1 has sm_35
    ],
)
def test_a_build_of_which_nobody_knows_that_it_runs_on_the_gpu_is_no_best_build(framework, gpu, python, code):
    assert run(framework, "--gpu", gpu, "--python-version", python)[0] == code
    command = ["recommend", "--framework", framework, "--gpu", gpu, "--python-version", python]
    shown = CliRunner().invoke(gpudoctor, command, standalone_mode=False).stdout
    assert ("Best" in shown) is (code == 0)
    assert ("is known to work with" in shown) is (code == 3)


def test_what_serves_a_gpu_that_no_release_supports_is_told():
    code, answer = run("vllm", "--gpu", "P100")
    assert code == 1 and "Serve the model with Ollama or llama.cpp" in answer["notes"][0]
    assert not any("No build" in note for note in run("vllm", "--gpu", "V100")[1]["notes"])


def test_known_issues_of_a_build_are_told_with_it():
    code, answer = run("tensorflow", "--gpu", "RTX 5090", "--driver", "580.95.05")
    assert code == 0
    assert any("XLA of this TensorFlow cannot compile" in why for why in answer["choices"][0]["why"])
    assert why_not(answer, "tensorflow[and-cuda] 2.17.1").startswith("known issue: these TensorFlow wheels")
    _, other = run("tensorflow", "--gpu", "RTX 4090", "--driver", "580.95.05")
    assert not any("known issue" in why for why in other["choices"][0]["why"])


@pytest.mark.parametrize(
    ("gpu", "kernel", "first"),
    [
        ("RX 6700 XT", "6.6.87.2-microsoft-standard-WSL2", "Run on native Linux or Windows"),
        ("RX 9070 XT", "6.8.0-60-generic", "Install Linux 7.0 (linux-generic-hwe-24.04)"),
    ],
)
def test_a_gpu_that_this_system_does_not_run_gets_no_build(gpu, kernel, first):
    code, answer = run("jax", "--gpu", gpu, "--kernel", kernel, "--os", "ubuntu-24.04")
    assert (code, packages(answer)) == (1, ["jax"])
    assert answer["otherwise"][0]["title"] == first


def shown(framework: str, *arguments: str) -> str:
    command = ["recommend", "--framework", framework, "--python-version", "3.12", *arguments]
    return CliRunner().invoke(gpudoctor, command, standalone_mode=False).stdout


@pytest.mark.parametrize(
    ("framework", "gpu", "title", "page"),
    [
        ("tensorflow", "RX 7900 XTX", "TensorFlow", "https://rocm.docs.amd.com/"),
        ("vllm", "MI300X", "vLLM", "https://docs.vllm.ai/"),
        ("sglang", "MI300X", "SGLang", "https://docs.sglang.io/"),
        ("llama-cpp", "RTX 4090", "llama-cpp-python", "https://github.com/abetlen/llama-cpp-python"),
        ("rapids", "RTX 4090", "RAPIDS", "https://docs.rapids.ai/"),
        ("tensorrt", "RTX 4090", "TensorRT", "https://docs.nvidia.com/deeplearning/tensorrt/"),
    ],
)
def test_what_is_installed_by_hand_is_called_by_its_name_and_its_instructions_are_next(framework, gpu, title, page):
    text = shown(framework, "--gpu", gpu)
    assert text.startswith(f"Best build: {title}, which you install by hand\n")
    assert text[text.index("Next: ") :].split()[:2] == ["Next:", "read"]
    assert page in text[text.index("Next: ") :]


@pytest.mark.parametrize(
    ("framework", "required"),
    [
        ("jax", "jax<0.4.30"),
        ("tensorflow", "tensorflow<2.11"),
        ("onnxruntime", "onnxruntime<1.20"),
        ("cupy", "cupy<13"),
    ],
)
def test_a_release_that_is_not_the_required_one_is_no_choice(framework, required):
    code, answer = run(framework, "--gpu", "RTX 4090", "--require", required)
    assert code == 1
    assert required in packages(answer) or framework in ("cupy", "tensorflow")
    assert any(row["why"] == f"{required} is required" for row in answer["rejected"])
    assert f"GeForce RTX 4090 meets {required}." in shown(framework, "--gpu", "RTX 4090", "--require", required)


def test_a_required_cuda_decides_between_builds_and_leaves_those_of_the_other_vendor():
    _, answer = run("jax", "--gpu", "RTX 4090", "--require", "jax.cuda<13")
    assert packages(answer)[0].startswith("jax[cuda12]==")
    assert why_not(answer, "jax[cuda13]") == "jax.cuda<13 is required"
    _, answer = run("jax", "--gpu", "MI300X", "--require", "jax.cuda<13")
    assert packages(answer)[0].startswith("jax-rocm7-plugin==")


def test_what_does_not_decide_about_a_build_is_not_passed_over_in_silence():
    _, answer = run("jax", "--gpu", "RTX 4090", "--require", "driver>=590", "--require", "jax>=0.6")
    assert [note for note in answer["notes"] if "does not decide" in note] == [
        "driver>=590 does not decide which build this is; `gpudoctor check --require` judges it."
    ]


@pytest.mark.parametrize(
    ("framework", "gpu", "bound"),
    [
        ("jax", "V100", True),
        ("tensorflow", "GTX 1080", True),
        ("onnxruntime", "V100", True),
        ("jax", "T4", False),
        ("cupy", "V100", False),
    ],
)
def test_cudnn_stays_at_a_release_that_has_kernels_for_the_gpu(framework, gpu, bound):
    _, answer = run(framework, "--gpu", gpu)
    assert ("nvidia-cudnn-cu12<9.11" in answer["choices"][0]["commands"]["pip"]) is bound


@pytest.mark.parametrize(
    ("framework", "gpu", "build", "why"),
    [
        ("tensorrt", "GTX 1080", "tensorrt-cu13", "no code for sm_61"),
        ("tensorrt", "V100", "tensorrt-cu13", "no code for sm_70"),
        ("rapids", "V100", "cudf-cu13", "no code for sm_70"),
        ("tensorflow", "RTX 5090", "tensorflow[and-cuda] 2.14.1", "the libraries of CUDA 11.8 are older than sm_120"),
    ],
)
def test_a_cuda_that_does_not_know_the_gpu_is_no_choice(framework, gpu, build, why):
    _, answer = run(framework, "--gpu", gpu, "--python-version", "3.11")
    assert why_not(answer, build) == why


def test_a_plugin_that_uses_the_systems_rocm_says_so():
    _, answer = run("jax", "--gpu", "RX 7900 XTX")
    assert "it uses ROCm 7 of the system, which must be installed" in answer["choices"][0]["why"]
