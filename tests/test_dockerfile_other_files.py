"""Files that `gpudoctor dockerfile` does not read: it says what they are, and never that they are in order."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from gpudoctor.cli.dockerfile import dockerfile
from gpudoctor.dockerfile.other_files import other_kind
from gpudoctor.dockerfile.recipe_files import read_recipe
from gpudoctor.host import InputError
from tests.support.check_cases import matrix
from tests.test_dockerfile import dockerfile_report

FILES = {
    "cog.yaml": ("build:\n  gpu: true\n  python_version: '3.11'\npredict: predict.py:Predictor\n", "a recipe of Cog"),
    "train.slurm": ("#!/bin/bash\n#SBATCH --gres=gpu:1\nRUN=1\nsrun python train.py\n", "a batch script of Slurm"),
    "train.sh": ("#!/bin/bash\n#SBATCH -N 2\nsrun python train.py\n", "a batch script of Slurm"),
    "values-prod.yaml": ("image:\n  repository: vllm/vllm-openai\nresources: {}\n", "a file of values for Helm"),
    "deployment.yaml": (
        'apiVersion: apps/v1\nkind: Deployment\nspec:\n  {{- with .Values.gpu }}\n  x: "{{ . }}"\n  {{- end }}\n',
        "a template of Helm",
    ),
    "ci.yml": ("name: CI\non: [push]\njobs:\n  a:\n    runs-on: ubuntu-latest\n", "a workflow of GitHub"),
    ".gitlab-ci.yml": (
        "image: nvidia/cuda:12.8.0-base-ubuntu24.04\ntest:\n  script: [pytest]\n",
        "a pipeline of GitLab",
    ),
    "task.yaml": ("resources:\n  accelerators: H100:8\nrun: |\n  torchrun train.py\n", "a task of SkyPilot"),
    "cluster.yaml": ("cluster_name: a\nprovider:\n  type: aws\n", "a cluster of Ray"),
    "constraints.txt": ("torch==2.6.0\n", "a list of packages"),
    "app.py": ("import modal\napp = modal.App()\n", "an app of Modal"),
    "Dockerfile.jinja": ("FROM {{ base }}-x {{ y }}\n", "a template"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_another_kind_is_named_in_one_line(tmp_path: Path, name: str):
    text, kind = FILES[name]
    error = refusal(tmp_path / name, text)
    assert error.startswith(f"{tmp_path / name}: this is {kind}") and "\n" not in error


PACKAGES = {
    "environment.yml": "channels: [pytorch]\ndependencies:\n  - pytorch=2.5.1\n  - pytorch-cuda=12.4\n",
    "requirements-gpu.txt": "torch==2.6.0\n",
    "pyproject.toml": '[project]\nname = "a"\nversion = "1"\ndependencies = ["torch==2.6.0"]\n[tool.uv]\n',
    "pixi.toml": '[pypi-dependencies]\ntorch = {version = "==2.6.0", index = "https://download.pytorch.org/whl/cu126"}\n',
    "train.slurm": "#!/bin/bash\n#SBATCH --gres=gpu:1\npip install torch==2.6.0\nsrun python train.py\n",
    "setup.sh": "python3 -m venv v && . v/bin/activate\npip install torch==2.6.0\n",
    "poetry/pyproject.toml": '[tool.poetry]\nname = "a"\n[tool.poetry.dependencies]\ntorch = "2.6.0"\n',
}


@pytest.mark.parametrize("name", PACKAGES)
def test_what_a_list_of_packages_installs_is_judged(tmp_path: Path, name: str):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(PACKAGES[name])
    (found,) = dockerfile_report(tmp_path / name, "--gpu", "RTX 5090")["findings"]
    assert found["slug"] == "torch-no-arch-for-gpu"
    assert "2.7.0" in (fix := found["fixes"][0]["steps"][0]["text"]) and "cu128" in fix
    assert dockerfile_report(tmp_path / name, "--gpu", "RTX 4090")["verdict"] == "ok"


@pytest.mark.parametrize("name", ["environment.yml", "requirements.txt", "pyproject.toml", "pixi.toml"])
def test_of_a_folder_without_a_recipe_its_lists_of_packages_are_judged(tmp_path: Path, name: str):
    (tmp_path / name).write_text(PACKAGES.get(name, "torch==2.6.0\n"))
    if name != "pyproject.toml":
        (tmp_path / "pyproject.toml").write_text("[tool.ruff]\nline-length = 100\n")
    (found,) = dockerfile_report(tmp_path, "--gpu", "RTX 5090")["findings"]
    assert found["slug"] == "torch-no-arch-for-gpu"
    assert dockerfile_report(tmp_path, "--gpu", "RTX 4090")["verdict"] == "ok"
    (tmp_path / "Dockerfile").write_text("FROM python:3.12\n")
    assert dockerfile_report(tmp_path, "--gpu", "RTX 5090")["findings"] == []


def test_of_the_environments_of_a_pixi_toml_the_installed_one_counts(tmp_path: Path):
    (tmp_path / "pixi.toml").write_text(
        "[feature.cuda.target.linux-64.pypi-dependencies]\n"
        'torch = {version = "==2.6.0", index = "https://download.pytorch.org/whl/cu126"}\n'
        '[feature.cpu.pypi-dependencies]\ntorch = {version = "*", index = "https://download.pytorch.org/whl/cpu"}\n'
        '[environments]\ndefault = ["cuda"]\nsmall = {features = ["cpu"]}\n'
    )
    assert dockerfile_report(tmp_path, "--gpu", "RTX 4090")["verdict"] == "ok"
    (tmp_path / "Dockerfile").write_text("FROM ghcr.io/prefix-dev/pixi:0.59.0\nCOPY . .\nRUN pixi install -e small\n")
    assert [one["slug"] for one in dockerfile_report(tmp_path, "--gpu", "RTX 4090")["findings"]] == ["torch-cpu-only"]


@pytest.mark.parametrize(("build", "verdict"), [("=pypi_0", "unknown"), ("=py311_cu118", "ok")])
def test_what_conda_exported_of_pip_s_packages_is_no_torch_of_conda(tmp_path: Path, build: str, verdict: str):
    """Its own torchvision tells nothing then: conda finds no such torch, and pip would bring another."""
    name = "torch" if "pypi" in build else "pytorch"
    lines = f"channels: [pytorch]\ndependencies:\n  - torchvision=0.15.2=py311_cu118\n  - {name}=2.0.1{build}\n"
    (tmp_path / "environment.yml").write_text(f"{lines}  - pytorch-cuda=11.8\n")
    report = dockerfile_report(tmp_path / "environment.yml", "--gpu", "RTX 4090")
    assert (report["verdict"], report["findings"]) == (verdict, [])


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ("torch==2.2.2 numpy==2.1.3 pandas", ["numpy2-old-torch"]),
        ("torch==2.2.2 'numpy<2'", []),
        ("torch==2.2.2 'numpy>=1.24'", []),
        ("torch==2.5.1 numpy==2.1.3", []),
        ("torch==2.2.2 numpy==2.1.3\nRUN pip install numpy==1.26.4", []),
        ("torch==2.2.2 && python -m venv /v && /v/bin/pip install numpy==2.1.3", []),
    ],
)
def test_a_numpy_that_the_torch_beside_it_was_not_built_for(tmp_path: Path, lines: str, found: list[str]):
    (tmp_path / "Dockerfile").write_text(f"FROM python:3.11\nRUN pip install {lines}\n")
    told = dockerfile_report(tmp_path, "--gpu", "RTX 4090")["findings"]
    assert [one["slug"] for one in told] == found
    for one in told:
        text = one["fixes"][0]["steps"][0]["text"]
        assert text.endswith("Dockerfile:2: RUN pip install torch==2.2.2 'numpy<2' pandas")


def test_of_a_list_the_line_of_numpy_is_changed(tmp_path: Path):
    (tmp_path / "requirements.txt").write_text("torch==2.2.2\nnumpy==2.1.3\n")
    (found,) = dockerfile_report(tmp_path / "requirements.txt", "--gpu", "RTX 4090")["findings"]
    assert found["fixes"][0]["steps"][0]["text"].endswith("requirements.txt:2: numpy<2")


def test_conda_takes_a_build_for_the_gpu_of_the_machine_that_it_runs_on(tmp_path: Path):
    """In a build of an image there is none: conda-forge's pytorch is then one for CPUs."""
    (tmp_path / "environment.yml").write_text("channels: [conda-forge]\ndependencies:\n  - pytorch=2.5.1\n")
    assert dockerfile_report(tmp_path / "environment.yml", "--gpu", "RTX 4090")["findings"] == []
    recipe = "FROM condaforge/miniforge3\nCOPY . .\nRUN conda env create -f environment.yml\n"
    (tmp_path / "Dockerfile").write_text(recipe)
    assert [one["slug"] for one in dockerfile_report(tmp_path, "--gpu", "RTX 4090")["findings"]] == ["torch-cpu-only"]


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ("pytorch=2.5.1=cpu_mkl*", ["torch-cpu-only"]),
        ("pytorch=2.5.1=cpu_generic_py312_h0_0", ["torch-cpu-only"]),
        ("pytorch-cpu", ["torch-cpu-only"]),
        ("pytorch=2.5.1=cuda126*", []),
        ("pytorch-gpu", []),
    ],
)
def test_a_build_for_cpus_that_a_spec_of_conda_forge_names(tmp_path: Path, spec: str, found: list[str]):
    (tmp_path / "environment.yml").write_text(f"channels: [conda-forge]\ndependencies:\n  - {spec}\n")
    report = dockerfile_report(tmp_path / "environment.yml", "--gpu", "RTX 4090")
    assert [one["slug"] for one in report["findings"]] == found


def test_a_list_that_conda_exported_is_conda_s(tmp_path: Path):
    lines = (
        "python=3.9.7=hb7a2778_3_cpython\ncudatoolkit=11.3.1=h2bc3f7f_2\npytorch=1.11.0=py3.9_cuda11.3_cudnn8.2.0_0\n"
    )
    (tmp_path / "requirements.txt").write_text(f"# platform: linux-64\n{lines}")
    (found,) = dockerfile_report(tmp_path / "requirements.txt", "--gpu", "H100")["findings"]
    assert (found["slug"], found["severity"]) == ("torch-no-arch-for-gpu", "error")
    assert dockerfile_report(tmp_path / "requirements.txt", "--gpu", "RTX 3090")["findings"] == []


def test_a_mistake_in_a_file_that_is_read_is_told_as_such(tmp_path: Path):
    wrong = refusal(tmp_path / "Dockerfile", "FROM a\nRUNN b # {{ .Values.c }}\n")
    assert "line 2: 'RUNN' is not an instruction" in wrong
    for name, text in (("compose.yaml", "resources: {}\nrun: a\n"), ("notes.yaml", "a: 1\n")):
        assert "has no `services`" in refusal(tmp_path / name, text)


def refusal(file: Path, text: str) -> str:
    file.write_text(text)
    with pytest.raises(InputError) as refused:
        read_recipe(str(file), matrix(), {}, "")
    return str(refused.value)


def test_a_manifest_without_a_container_is_not_called_healthy(tmp_path: Path):
    (tmp_path / "service.yaml").write_text("apiVersion: v1\nkind: Service\nspec: {ports: []}\n")
    result = CliRunner().invoke(dockerfile, [str(tmp_path / "service.yaml")])
    assert result.stdout.startswith("Nothing to check: no image and no container found.") and result.exit_code == 0


def test_the_container_of_a_workflow_of_argo_is_read(tmp_path: Path):
    (tmp_path / "workflow.yaml").write_text(
        "apiVersion: argoproj.io/v1alpha1\nkind: Workflow\nspec:\n  templates:\n  - name: train\n    container:\n"
        "      image: nvidia/cuda:12.8.0-base-ubuntu24.04\n      resources:\n        requests: {nvidia.com/gpu: 1}\n"
    )
    (found,) = dockerfile_report(tmp_path / "workflow.yaml")["findings"]
    assert found["slug"] == "manifest-gpu-request"
    assert "workflow.yaml:9: leave out nvidia.com/gpu" in found["fixes"][0]["steps"][0]["text"]


@pytest.mark.parametrize("text", ["{{." * 20_000, "dependencies:\n" + "\n" * 60_000])
def test_no_text_keeps_the_search_for_its_kind_busy(text: str):
    start = time.perf_counter()
    assert other_kind("x", text) == ""
    assert time.perf_counter() - start < 1
