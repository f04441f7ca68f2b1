"""What pdm, pipenv, pixi and setup.py install, and what to write into their files."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpudoctor.dockerfile.torch import torch_of
from tests.support.check_cases import matrix
from tests.test_dockerfile import found_for, image_of

INDEX = "https://download.pytorch.org/whl/"
NAMES = (
    "pyproject.toml pdm.lock Pipfile Pipfile.lock pixi.toml pixi.lock setup.py setup.cfg requirements.txt needs.txt"
)
BASE = f"FROM python:3.11-slim\nWORKDIR /app\nCOPY {NAMES} ./\n"
PDM = """[metadata]
lock_version = "4.4"

[[package]]
name = "numpy"
version = "1.26.2"

[[package]]
name = "torch"
version = "2.1.2"
requires_python = ">=3.8.0"
dependencies = ["filelock"]
"""
PDM_SOURCE = (
    f'[project]\nname = "a"\n[[tool.pdm.source]]\nname = "t"\nurl = "{INDEX}cu118"\ninclude_packages = ["torch"]\n'
)
PIPFILE = f"""[[source]]
url = "https://pypi.org/simple"
name = "pypi"
[[source]]
url = "{INDEX}cu118/"
name = "of-torch"
[packages]
numpy = "*"
torch = {{version = "==2.1.0+cu118", index = "of-torch"}}
torchvision = {{version = "==0.16.0+cu118", index = "of-torch"}}
[dev-packages]
pytest = "*"
"""
PIPFILE_LOCK = """{"_meta": {"sources": [{"name": "pypi", "url": "https://pypi.org/simple"},
 {"name": "of-torch", "url": "https://download.pytorch.org/whl/cu113/"}]},
 "default": {"numpy": {"version": "==1.19.5"},
  "torch": {"hashes": [], "index": "of-torch", "version": "==1.11.0+cu113"}},
 "develop": {"pytest": {"version": "==7.0"}}}
"""
PIXI = """version: 6
environments:
  default:
    packages:
      linux-64:
      - conda: https://conda.anaconda.org/conda-forge/linux-64/python-3.11.13-h9e4cc4f_0_cpython.conda
      - pypi: https://files.pythonhosted.org/packages/8f/c4/00/torch-2.8.0-cp311-cp311-manylinux_2_28_x86_64.whl
      osx-arm64:
      - pypi: https://files.pythonhosted.org/packages/be/66/00/torch-2.9.0-cp311-none-macosx_11_0_arm64.whl
  gpu:
    packages:
      linux-64:
      - pypi: https://download.pytorch.org/whl/cu118/torch-2.7.1%2Bcu118-cp311-cp311-manylinux_2_28_x86_64.whl
packages:
- pypi: https://files.pythonhosted.org/packages/8f/c4/00/torch-2.8.0-cp311-cp311-manylinux_2_28_x86_64.whl
  name: torch
"""
SETUP = "from setuptools import setup\nsetup(name='a', install_requires={})\n"


def torch_in(command: str, files: dict[str, str]) -> tuple[str, str] | None:
    held = torch_of(image_of(BASE + command, files), matrix())
    return (held.version, held.build) if held is not None else None


IMPORT = "from setuptools import setup\n"
CONFIG = "[options]\ninstall_requires =\n    numpy\n    torch==2.6.0\n"
LISTED = SETUP.format("open('requirements.txt').read().splitlines()")
NAMED = "import setuptools\nR = ['torch==2.6.0']\nsetuptools.setup(install_requires=R)"
CHANGED = IMPORT + "R = ['torch==2.6.0']\nR += other()\nsetup(install_requires=R)"
EXTRA = IMPORT + "setup(extras_require={'gpu': ['torch==2.6.0']})"
PROJECT = '[project]\nname = "a"\ndependencies = ["torch==2.6.0"]\n'
T26 = ("2.6.0", "cu124")


@pytest.mark.parametrize(
    ("command", "files", "torch"),
    [
        ("RUN pdm install --prod", {"pdm.lock": PDM}, ("2.1.2", "cu121")),
        ("RUN pdm sync", {"pdm.lock": PDM, "pyproject.toml": PDM_SOURCE}, ("2.1.2", "cu118")),
        ("RUN cd / && pdm install --project /app --check --global", {"pdm.lock": PDM}, ("2.1.2", "cu121")),
        ("RUN pdm install", {"pyproject.toml": PROJECT}, T26),
        ("RUN pdm install", {}, None),
        ("RUN pipenv install --system --deploy", {"Pipfile.lock": PIPFILE_LOCK}, ("1.11.0", "cu113")),
        ("RUN pipenv sync --dev", {"Pipfile.lock": PIPFILE_LOCK}, ("1.11.0", "cu113")),
        ("RUN pipenv install --skip-lock", {"Pipfile": PIPFILE, "Pipfile.lock": PIPFILE_LOCK}, ("2.1.0", "cu118")),
        ("RUN pipenv install --system", {"Pipfile": PIPFILE}, ("2.1.0", "cu118")),
        ("RUN pipenv install --system", {"Pipfile": "[packages\n"}, None),
        ("RUN pipenv install requests", {"Pipfile.lock": PIPFILE_LOCK}, None),
        ("RUN pixi install --locked", {"pixi.lock": PIXI}, ("2.8.0", "cu128")),
        ("RUN pixi install -e gpu --frozen", {"pixi.lock": PIXI}, ("2.7.1", "cu118")),
        ("RUN pixi install --environment other", {"pixi.lock": PIXI}, None),
        ("RUN pip install .", {"setup.py": SETUP.format("['torch==2.6.0', 'numpy']")}, T26),
        ("RUN pip install -e .", {"setup.py": NAMED}, T26),
        ("RUN pip install .", {"setup.py": LISTED, "requirements.txt": "torch==2.6.0\n"}, T26),
        ("RUN pip install .[gpu]", {"setup.py": EXTRA}, T26),
        ("RUN pip install .", {"setup.py": EXTRA}, None),
        ("RUN pip install .", {"setup.py": IMPORT + "setup()", "setup.cfg": CONFIG}, T26),
        ("RUN pip install .", {"setup.cfg": "[options]\ninstall_requires = file: needs.txt\n",
                               "needs.txt": "torch==2.6.0"}, T26),
        ("RUN pip install .", {"setup.py": CHANGED}, None),
        ("RUN pip install .", {"setup.py": IMPORT + "setup(**read())"}, None),
        ("RUN pip install .", {"setup.py": "def broken(:"}, None),
    ],
)  # fmt: skip
def test_the_torch_of_a_project(command: str, files: dict[str, str], torch: tuple[str, str] | None):
    assert torch_in(command, files) == torch


def proposal(tmp_path: Path, gpu: str, command: str, files: dict[str, str]) -> str:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    found = found_for(tmp_path, gpu, BASE + command)
    return str(found[0]["fixes"][0]["steps"][0]["text"])  # type: ignore[index]


def test_pipenv_takes_another_torch_by_its_pipfile(tmp_path: Path):
    text = proposal(tmp_path, "RTX 5090", "RUN pipenv install --system --skip-lock\n", {"Pipfile": PIPFILE})
    assert "in Pipfile" in text
    assert 'torch = {version = "==2.7.0+cu128", index = "torch-cu128"}' in text
    assert 'torchvision = {version = "==0.22.0+cu128", index = "torch-cu128"}' in text
    repaired = PIPFILE.replace("2.1.0+cu118", "2.7.0+cu128").replace("0.16.0+cu118", "0.22.0+cu128")
    (tmp_path / "Pipfile").write_text(repaired.replace("whl/cu118", "whl/cu128"))
    assert found_for(tmp_path, "RTX 5090", BASE + "RUN pipenv install --system --skip-lock\n") == []


def test_pdm_takes_another_torch_by_a_source(tmp_path: Path):
    text = proposal(
        tmp_path, "RTX 5090", "RUN pdm install --prod\n", {"pdm.lock": PDM, "pyproject.toml": "[project]\n"}
    )
    assert "run `pdm lock`" in text
    assert f'[[tool.pdm.source]]\nname = "torch-cu128"\nurl = "{INDEX}cu128"\ninclude_packages = ["torch"]' in text
    (tmp_path / "pdm.lock").write_text(PDM.replace('"2.1.2"', '"2.7.0+cu128"'))
    (tmp_path / "pyproject.toml").write_text(PDM_SOURCE.replace("cu118", "cu128"))
    assert found_for(tmp_path, "RTX 5090", BASE + "RUN pdm install --prod\n") == []


def test_pixi_takes_another_torch_by_its_index(tmp_path: Path):
    text = proposal(tmp_path, "GTX 1080", "RUN pixi install --locked\n", {"pixi.lock": PIXI})
    assert f'torch = {{ version = "==2.8.0+cu126", index = "{INDEX}cu126" }}' in text
    assert "run `pixi lock`" in text


FORGE = """[workspace]
channels = ["conda-forge"]
platforms = ["linux-64"]
[dependencies]
pytorch = "2.7.*"
[feature.gpu.system-requirements]
cuda = "12"
[environments]
gpu = ["gpu"]
"""
FORGE_LOCK = """version: 6
environments:
  default:
    packages:
      linux-64:
      - conda: https://conda.anaconda.org/conda-forge/linux-64/pytorch-2.7.1-cpu_mkl_py311_h2e2b2a9_102.conda
"""


@pytest.mark.parametrize(
    ("command", "files", "torch"),
    [
        ("RUN pixi install", {"pixi.toml": FORGE}, ("2.7.1", "cpu")),
        ("RUN pixi install", {"pixi.toml": FORGE, "pixi.lock": FORGE_LOCK}, ("2.7.1", "cpu")),
        ("RUN pixi install", {"pixi.lock": FORGE_LOCK.replace("cpu_mkl", "cuda126_mkl")}, None),
        ("RUN pixi install -e gpu", {"pixi.toml": FORGE}, None),
        ("ENV CONDA_OVERRIDE_CUDA=12.8\nRUN pixi install", {"pixi.toml": FORGE}, None),
        (
            "RUN pixi install",
            {"pixi.toml": FORGE.replace('"linux-64"', '{platform = "linux-64", cuda = "12"}')},
            None,
        ),
        ("RUN pixi install", {"pixi.toml": FORGE.replace('["conda', '["pytorch", "conda')}, None),
        ("RUN pixi install", {"pixi.toml": FORGE.replace("pytorch =", "pytorch-gpu =")}, None),
    ],
)
def test_without_a_declared_cuda_pixi_takes_conda_forges_build_for_cpus(
    command: str, files: dict[str, str], torch: tuple[str, str] | None
) -> None:
    assert torch_in(command, files) == torch


def test_pixi_is_told_which_cuda_there_will_be(tmp_path: Path) -> None:
    text = proposal(tmp_path, "RTX 4090", "RUN pixi install\n", {"pixi.toml": FORGE})
    assert text.endswith('in pixi.toml below [system-requirements]: cuda = "12"')


def test_torch_is_installed_before_a_project_of_setuptools(tmp_path: Path):
    text = proposal(tmp_path, "RTX 5090", "RUN pip install -e .\n", {"setup.py": SETUP.format("['torch==2.6.0']")})
    assert f"RUN pip install --index-url {INDEX}cu128 torch==2.7.0+cu128 && pip install -e ." in text


def test_an_environment_of_pixi_that_is_copied_is_followed_or_unknown():
    built = (
        "FROM ghcr.io/prefix-dev/pixi:0.59.0 AS build\nWORKDIR /app\nCOPY pixi.lock ./\nRUN pixi install --locked\n"
    )
    last = "FROM ubuntu:24.04\nCOPY --from=build /app/.pixi/envs/default /app/.pixi/envs/default\n"
    held = torch_of(image_of(built + last, {"pixi.lock": PIXI}), matrix())
    assert held is not None
    assert (held.version, held.build) == ("2.8.0", "cu128")


def test_a_package_that_brings_a_torch_without_code_for_the_gpu_is_taken_in_another_release(tmp_path: Path) -> None:
    recipe = "FROM python:3.11-slim\nRUN pip install vllm==0.6.3 ray\n"
    (finding,) = found_for(tmp_path, "RTX 5090", recipe)
    line = str(finding["fixes"][0]["steps"][0]["text"]).partition(": ")[2]  # type: ignore[index]
    assert line == f"RUN pip install --index-url {INDEX}cu128 torch==2.7.0+cu128 && pip install vllm==0.9.2 ray"
    assert found_for(tmp_path, "RTX 5090", f"FROM python:3.11-slim\n{line}\n") == []


def test_the_sources_of_uv_name_one_index_for_torch_and_its_companions(tmp_path: Path) -> None:
    sources = f'[[tool.uv.index]]\nname = "cpu"\nurl = "{INDEX}cpu"\n[tool.uv.sources]\n'
    sources += 'torch = { index = "cpu" }\ntorchvision = { index = "cpu" }\n'
    project = f'[project]\nname = "a"\ndependencies = ["torch==2.7.0", "torchvision==0.22.0"]\n{sources}'
    text = proposal(tmp_path, "RTX 5090", "RUN uv sync\n", {"pyproject.toml": project})
    assert 'torch = { index = "torch-cu128" }\ntorchvision = { index = "torch-cu128" }' in text
