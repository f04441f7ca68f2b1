"""Install commands of Dockerfiles that name other files: which torch they bring, and what is unknown."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from gpudoctor.cli.dockerfile import dockerfile
from gpudoctor.dockerfile.torch import torch_of
from tests.support.check_cases import matrix
from tests.test_dockerfile import dockerfile_report, findings, image_of, lines, told

CU128 = "https://download.pytorch.org/whl/cu128"
BASE = "FROM python:3.12-slim\nWORKDIR /app\nCOPY . .\n"
PIP = BASE + "RUN pip install "
PROJECT = """[project]
name = "app"
dependencies = ["numpy", "torch>=2.4,<2.7"]
[project.optional-dependencies]
cuda = ["xformers", "torch==2.6.0"]
all = ["app[cuda]"]
[dependency-groups]
dev = ["pytest", {include-group = "gpu"}]
gpu = ["torch==2.5.1"]
"""
SOURCES = (
    PROJECT
    + f"""[tool.uv.sources]
torch = {{ index = "own" }}
[[tool.uv.index]]
name = "own"
url = "{CU128}"
explicit = true
"""
)
ENVIRONMENT = """name: app
channels: [pytorch, nvidia]
dependencies:
  - python=3.10
  - pytorch=2.1.0
  - pytorch-cuda=12.1
  - pip:
    - -r requirements.txt
"""
LOCK = """[[package]]
name = "torch"
version = "2.5.1+cu121"
optional = false
groups = ["main", "gpu"]

[package.source]
type = "legacy"
url = "https://download.pytorch.org/whl/cu121"
reference = "torch"

[[package]]
name = "other"
version = "1"
"""
SCRIPT = "#!/bin/bash\nset -e\n# pip install torch==1.13.1\ncd /app/tools\npip install \\\n  -r deps.txt\n"


def torch_in(text: str, files: dict[str, str]) -> tuple[str, str] | None:
    held = torch_of(image_of(text, {f"./{name}": content for name, content in files.items()}), matrix())
    return (held.version, held.build) if held is not None else None


def unknown_for(text: str, files: dict[str, str]) -> bool:
    """Whether the torch is unknown for a described GPU."""
    held = torch_of(image_of(text, {f"./{name}": content for name, content in files.items()}), matrix())
    return held is None or not held.known


KNOWN = {
    "a file that includes another": (
        PIP + "-r a.txt", {"a.txt": "numpy\n-r sub/b.txt", "sub/b.txt": "torch==2.5.1"}, ("2.5.1", "cu124"),
    ),
    "constraints of the command": (PIP + "torch -c c.txt", {"c.txt": "torch==2.5.1\n"}, ("2.5.1", "cu124")),
    "constraints of a file": (
        PIP + "-r a.txt", {"a.txt": "-c c.txt\ntorch\n", "c.txt": "torch==2.5.1\n"}, ("2.5.1", "cu124"),
    ),
    "constraints of a variable": (
        BASE + "ENV PIP_CONSTRAINT=/app/c.txt\nRUN pip install torch", {"c.txt": "torch<2.6\n"}, ("2.5.1", "cu124"),
    ),
    "a folder that the command enters": (
        BASE + "RUN cd sub && pip install -r b.txt", {"sub/b.txt": "torch==2.5.1"}, ("2.5.1", "cu124"),
    ),
    "a copy before the folder changed": (
        BASE + "WORKDIR /other\nRUN pip install -r /app/b.txt", {"b.txt": "torch==2.5.1"}, ("2.5.1", "cu124"),
    ),
    "the project": (PIP + ".", {"pyproject.toml": PROJECT}, ("2.6.0", "cu124")),
    "an extra of it": (PIP + "-e .[all]", {"pyproject.toml": PROJECT}, ("2.6.0", "cu124")),
    "a group of it": (PIP + "--group gpu", {"pyproject.toml": PROJECT}, ("2.5.1", "cu124")),
    "a project with uv's sources, by uv": (
        BASE + "RUN uv pip install -e .[cuda]",
        {"pyproject.toml": SOURCES.replace("2.6.0", "2.7.0").replace(",<2.7", "")}, ("2.7.0", "cu128"),
    ),
    "the same by pip, which knows no sources": (PIP + "-e .", {"pyproject.toml": SOURCES}, ("2.6.0", "cu124")),
    "uv sync without its lock": (BASE + "RUN uv sync --no-dev", {"pyproject.toml": PROJECT}, ("2.6.0", "cu124")),
    "uv pip sync": (BASE + "RUN uv pip sync a.txt", {"a.txt": "torch==2.5.1"}, ("2.5.1", "cu124")),
    "files that setuptools reads": (
        PIP + ".",
        {"pyproject.toml": '[project]\nname = "a"\ndynamic = ["dependencies"]\n[tool.setuptools.dynamic]\n'
         'dependencies = {file = ["r.txt"]}', "r.txt": "torch==2.5.1"},
        ("2.5.1", "cu124"),
    ),
    "poetry without its lock": (
        BASE + "RUN poetry install --only main",
        {"pyproject.toml": '[tool.poetry.dependencies]\npython = "^3.10"\ntorch = "~2.5"'},
        ("2.5.1", "cu124"),
    ),
    "poetry with its lock": (BASE + "RUN poetry install", {"poetry.lock": LOCK}, ("2.5.1", "cu121")),
    "poetry with a torch for each extra": (
        BASE + "RUN poetry install --extras cuda",
        {
            "poetry.lock": LOCK + LOCK.replace("cu121", "cpu"),
            "pyproject.toml": '[project]\nname = "a"\n[project.optional-dependencies]\n'
            'cpu = ["torch (==2.5.1+cpu)"]\ncuda = ["torch (==2.5.1+cu121)"]',
        },
        ("2.5.1", "cu121"),
    ),
    "conda": (
        "FROM continuumio/miniconda3\nRUN conda install -y pytorch==2.1.0 pytorch-cuda=12.1 -c pytorch -c nvidia", {},
        ("2.1.0", "cu121"),
    ),
    "conda's newest, which is its last": (
        "FROM continuumio/miniconda3\nRUN conda install -y pytorch pytorch-cuda=12.4 -c pytorch -c nvidia", {},
        ("2.5.1", "cu124"),
    ),
    "conda's cudatoolkit": (
        "FROM continuumio/miniconda3\nRUN conda install pytorch=1.12.1 cudatoolkit=11.3 -c pytorch", {},
        ("1.12.1", "cu113"),
    ),
    "conda's newest of an old CUDA": (
        "FROM continuumio/miniconda3\nRUN conda install pytorch torchvision cudatoolkit=11.3 -c pytorch", {},
        ("1.12.1", "cu113"),
    ),
    "environment.yml": (
        BASE + "RUN micromamba install -y -n base -f environment.yml",
        {"environment.yml": ENVIRONMENT, "requirements.txt": "torch>=2"}, ("2.1.0", "cu121"),
    ),
    "a torch of pip over that of conda": (
        BASE + "RUN conda env create -f environment.yml",
        {"environment.yml": ENVIRONMENT, "requirements.txt": "torch==2.5.1"}, ("2.5.1", "cu124"),
    ),
    "a script": (
        BASE + "RUN bash tools/i.sh", {"tools/i.sh": SCRIPT, "tools/deps.txt": "torch==2.5.1"}, ("2.5.1", "cu124"),
    ),
    "what an entrypoint installs": (
        BASE + 'ENTRYPOINT ["/app/start.sh"]\nCMD ["python", "app.py"]',
        {"start.sh": '#!/bin/sh\npip install torch==2.5.1\nexec "$@"\n'}, ("2.5.1", "cu124"),
    ),
    "a folder that another stage filled": (
        "FROM python:3.12 AS b\nRUN pip install --prefix=/install torch==2.5.1\n"
        "FROM python:3.12-slim\nCOPY --from=b /install /usr/local", {}, ("2.5.1", "cu124"),
    ),
    "a marker for another system": (
        PIP + "-r a.txt",
        {"a.txt": "torch==2.2.2; sys_platform == 'darwin'\ntorch==2.5.1; sys_platform != 'darwin'\n"},
        ("2.5.1", "cu124"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", KNOWN)
def test_the_torch_of_files_is_known(name: str):
    text, files, torch = KNOWN[name]
    assert torch_in(text, files) == torch


BRINGS = "FROM {}\nRUN {}pip install {}ultralytics\n"


@pytest.mark.parametrize(
    ("gpu", "base", "before", "beside", "verdict"),
    [
        ("GTX 1080", "python:3.12", "", "", "error"),
        ("H100", "python:3.12", "", "", "ok"),
        ("GTX 1080", "python:3.12", "", "-c c.txt ", "unknown"),
        ("GTX 1080", "python:3.12", "pip install -r gone.txt && ", "", "unknown"),
        ("GTX 1080", "python", "", "", "unknown"),
        ("GTX 1080", "python:3.12", "pip install torch==2.6.0 && ", "", "ok"),
        ("GTX 1080", "python:3.12", "pip install torch==2.6.0 && ", "-U ", "ok"),
    ],
)
def test_a_package_that_brings_some_torch_brings_the_newest(
    tmp_path: Path, gpu: str, base: str, before: str, beside: str, verdict: str
):
    file = tmp_path / "Dockerfile"
    file.write_text(BRINGS.format(base, before, beside))
    result = CliRunner().invoke(dockerfile, [str(file), "--gpu", gpu, "--format", "json"])
    report = json.loads(result.stdout)
    assert report["verdict"] == verdict
    for one in report["findings"] if verdict == "error" else ():
        assert one["confidence"] == "likely"
        (text,) = [step["text"] for step in one["fixes"][0]["steps"]]
        assert re.search(r"RUN pip install ultralytics --extra-index-url \S+ torch==\S+$", text)
    if verdict == "unknown":
        assert "which torch line 2 installs" in str(report["not_judged"])


UNKNOWN = {
    "a folder in which pip does not see what is there": (
        "FROM python:3.12 AS b\nRUN pip install --prefix=/i torch==2.5.1 && echo > /etc/pip.conf\n"
        "RUN pip install --prefix=/i accelerate 'torch>=2'\nFROM python:3.12-slim\nCOPY --from=b /i /usr/local", {},
    ),
    "a file that an included file includes": (PIP + "-r a.txt torch", {"a.txt": "-r gone.txt\n"}),
    "constraints that are not there": (PIP + "torch -c gone.txt", {}),
    "a project without a list": (PIP + ".", {"pyproject.toml": '[project]\nname = "a"\ndynamic = ["dependencies"]'}),
    "a project with setup.py alone": (PIP + ".", {}),
    "a torch for each Python": (
        PIP + "-r a.txt",
        {"a.txt": "torch==2.2.2; python_version < '3.11'\ntorch==2.5.1; python_version >= '3.11'\n"},
    ),
    "an extra that is not there": (BASE + "RUN uv sync --extra nothing", {"pyproject.toml": '[project]\nname = "a"'}),
    "a source that is none": (
        BASE + "RUN uv sync", {"pyproject.toml": SOURCES.replace('index = "own"', 'git = "https://e.example/t"')},
    ),
    "conda's open choice": ("FROM continuumio/miniconda3\nRUN conda install -y pytorch", {}),
    "a function of a script": (
        BASE + "RUN bash i.sh", {"i.sh": "cuda() {\n  pip install torch==2.5.1\n}\ncase $1 in gpu) cuda;; esac\n"},
    ),
    "a script with an interpreter of its own": (
        BASE + "RUN bash i.sh", {"i.sh": "$MY_PYTHON -m pip install torch\n"},
    ),
    "a folder that the shell works out": (
        BASE + "RUN cd $(dirname x) && pip install -r a.txt", {"a.txt": "torch==2.5.1"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_files_leave_open_is_unknown(name: str):
    text, files = UNKNOWN[name]
    assert unknown_for(text, files)


def test_a_torch_that_another_locked_package_brings_counts():
    lock = (
        'version = 1\n\n[[package]]\nname = "app"\nversion = "1"\nsource = { virtual = "." }\n'
        'dependencies = [\n    { name = "accelerate" },\n]\n\n'
        '[package.dev-dependencies]\ndev = [\n    { name = "x" },\n]\n\n'
        '[[package]]\nname = "accelerate"\nversion = "1"\nsource = { registry = "https://pypi.org/simple" }\n'
        'dependencies = [\n    { name = "torch" },\n]\n\n'
        '[[package]]\nname = "torch"\nversion = "2.7.0"\nsource = { registry = "https://pypi.org/simple" }\n'
    )
    assert torch_in(BASE + "RUN uv sync --frozen", {"uv.lock": lock}) == ("2.7.0", "cu126")
    other = lock.replace('    { name = "accelerate" }', '    { name = "numpy" }').replace('"x"', '"accelerate"')
    assert torch_in(BASE + "RUN uv sync --frozen", {"uv.lock": other}) == ("2.7.0", "cu126")
    assert torch_in(BASE + "RUN uv sync --frozen --no-dev", {"uv.lock": other}) is None


# --- where a fix stands ------------------------------------------------------------------------------------

ROCM = "FROM rocm/dev-ubuntu-22.04:6.4-complete\nWORKDIR /app\nCOPY . .\n"


def fix_of(text: str, files: dict[str, str], slug: str = "image-torch-other-vendor") -> str:
    found = findings(text, {f"./{name}": content for name, content in files.items()})
    (one,) = [one for one in found if one.slug == slug]
    return lines(one)


def test_a_fix_stands_in_the_requirements_file():
    files = {"req/a.txt": "numpy\n-r b.txt\n", "req/b.txt": "torch==2.8.0\ntorchvision\n"}
    text = fix_of(ROCM + "RUN pip install -r req/a.txt", files)
    assert text.split("\n") == [
        "req/b.txt:1: above it: --extra-index-url https://download.pytorch.org/whl/rocm6.4",
        "req/b.txt:1: torch==2.8.0+rocm6.4",
        "req/b.txt:2: torchvision==0.23.0+rocm6.4",
    ]


def test_a_fix_takes_the_place_of_the_index_that_is_named():
    files = {"a.txt": "--extra-index-url https://download.pytorch.org/whl/cu126\ntorch==2.8.0+cu126\n"}
    text = fix_of(ROCM + "RUN pip install -r a.txt", files)
    assert text.startswith("in place of https://download.pytorch.org/whl/cu126: --extra-index-url ")


def test_a_fix_keeps_the_kind_of_the_index_and_leaves_out_what_torch_brings(tmp_path: Path):
    (tmp_path / "a.txt").write_text(
        "-i https://download.pytorch.org/whl/rocm6.1\ntorch==2.5.1\npytorch_triton_rocm==3.1.0\neinops\n"
    )
    assert fix_for(tmp_path, "FROM python:3.11\nCOPY a.txt .\nRUN pip install -r a.txt", "RX 9070 XT").split(
        "\n"
    ) == [
        "in place of https://download.pytorch.org/whl/rocm6.1: --index-url https://download.pytorch.org/whl/rocm6.3",
        "a.txt:2: torch==2.7.0+rocm6.3",
        "a.txt:3: leave out pytorch-triton-rocm, which torch brings",
    ]


def test_a_command_leaves_out_what_torch_brings_too(tmp_path: Path):
    pins = "triton==3.1.0 nvidia-cudnn-cu12==9.1.0.70"
    fix = fix_for(tmp_path, f"FROM python:3.11\nRUN pip install torch==2.5.1 {pins} triton-tools==1", "RTX 5090")
    assert fix.endswith(f"RUN pip install --extra-index-url {CU128} torch==2.7.0+cu128 triton-tools==1")


def fix_for(tmp_path: Path, text: str, gpu: str) -> str:
    (tmp_path / "Dockerfile").write_text(text)
    (found,) = dockerfile_report(tmp_path / "Dockerfile", "--gpu", gpu)["findings"]
    return str(found["fixes"][0]["steps"][0]["text"])


def test_a_fix_stands_in_the_script():
    text = fix_of(ROCM + "RUN bash i.sh", {"i.sh": "#!/bin/sh\npip install torch==2.8.0\n"})
    assert text == "i.sh:2: pip install --index-url https://download.pytorch.org/whl/rocm6.4 torch==2.8.0+rocm6.4"


def test_a_fix_stands_in_environment_yml():
    environment = ENVIRONMENT.replace("    - -r requirements.txt", "    - torch==2.8.0")
    text = fix_of(ROCM + "RUN conda env create -f e.yml", {"e.yml": environment})
    assert text.split("\n")[0] == "e.yml:8: in the list of pip:"
    assert "    - torch==2.8.0+rocm6.4" in text.split("\n")


def test_a_fix_for_condas_torch_is_a_list_of_pip():
    text = fix_of(ROCM + "RUN conda env create -f e.yml", {"e.yml": ENVIRONMENT, "requirements.txt": "numpy"})
    assert text.split("\n")[0] == "e.yml:5: in place of conda's pytorch, last of the dependencies:"
    assert text.split("\n")[1] == "  - pip:"
    in_words = fix_of(ROCM + "RUN conda install pytorch=2.5.1 pytorch-cuda=12.4 -c pytorch", {})
    assert re.search(r":\d: RUN pip install --index-url \S+/rocm\S+ torch==2.5.1\+rocm\S+$", in_words)
    beside = fix_of(
        ROCM + "RUN conda install -n ml -y pytorch=2.5.1 pytorch-cuda=12.4 numpy -c pytorch && ldconfig", {}
    )
    assert ": RUN conda install -n ml -y numpy -c pytorch && conda run -n ml pip install --index-url " in beside
    assert beside.endswith(" && ldconfig")


def test_what_pip_installs_in_an_environment_of_conda_is_read_and_rewritten_there():
    text = fix_of(ROCM + "RUN conda run --no-capture-output -n ml pip install numpy torch==2.5.1", {})
    assert re.search(r": RUN conda run --no-capture-output -n ml pip install numpy \S+-index-url \S+/rocm", text)


def test_a_fix_for_poetry_is_its_commands():
    text = fix_of(ROCM + "RUN poetry install", {"poetry.lock": LOCK})
    assert text.startswith("poetry.lock:1: poetry source add --priority explicit torch-rocm")
    assert "poetry add --source torch-rocm" in text


def test_the_base_images_torch_is_kept_where_torch_is_named():
    text = ROCM.replace("rocm/dev-ubuntu-22.04:6.4-complete", "rocm/pytorch:latest") + "RUN pip install -r a.txt"
    assert fix_of(text, {"a.txt": "numpy\ntorch==2.8.0"}) == "a.txt:2: leave out torch; the base image has one."


# --- packages that cannot be installed ---------------------------------------------------------------------

NOT_BUILT, REMOVED, BASE_REMOVED = "image-extension-not-built", "image-package-removed", "image-base-removed"
DEVEL = "FROM pytorch/pytorch:2.6.0-cuda12.4-cudnn9-devel\n"
RUNTIME = "FROM pytorch/pytorch:2.6.0-cuda12.4-cudnn9-runtime\n"
FAULTY = {
    "flash-attn without nvcc": (RUNTIME + "RUN pip install flash-attn --no-build-isolation", NOT_BUILT, "error"),
    "mamba-ssm on a slim Python": (
        "FROM python:3.11-slim\nRUN pip install torch==2.6.0\nRUN pip install mamba-ssm", NOT_BUILT, "error",
    ),
    "flash-attn without nvcc, after a file that is not there": (
        RUNTIME + "RUN pip install -r gone.txt\nRUN pip install flash-attn --no-build-isolation",
        NOT_BUILT, "warning",
    ),
    "flash-attn that may fail": (RUNTIME + "RUN echo a && pip install flash-attn || true", NOT_BUILT, "note"),
    "flash-attn in a group that may fail": (
        DEVEL + "RUN (echo a; uv pip install --system flash-attn) || echo no", NOT_BUILT, "note",
    ),
    "flash-attn that must not fail": (
        RUNTIME + "RUN pip install flash-attn || (echo no; exit 1)", NOT_BUILT, "error",
    ),
    "flash-attn before what may fail": (RUNTIME + "RUN pip install flash-attn; rm a || true", NOT_BUILT, "error"),
    "flash-attn in isolation": (DEVEL + "RUN pip install flash_attn==2.7.4.post1", NOT_BUILT, "warning"),
    "flash-attn in uv's isolation": (DEVEL + "RUN uv pip install --system flash-attn", NOT_BUILT, "error"),
    "flash-attn before torch": (
        "FROM nvidia/cuda:12.4.1-devel-ubuntu22.04\nRUN pip install --no-build-isolation torch==2.6.0 flash-attn",
        NOT_BUILT, "error",
    ),
    "tensorflow-gpu": ("FROM python:3.10\nRUN pip install 'tensorflow-gpu>=2.5'", REMOVED, "error"),
    "a torch that conda's channel never had": (
        "FROM continuumio/miniconda3\nRUN conda install pytorch=2.7.0 pytorch-cuda=12.6 -c pytorch -c nvidia",
        REMOVED, "error",
    ),
    "a base of another stage": (
        "FROM nvidia/cuda:10.2-devel-ubuntu18.04 AS b\nRUN make\nFROM python:3.12\nCOPY --from=b /x /x",
        BASE_REMOVED, "error",
    ),
    "an image that files are copied from": (
        "FROM python:3.12\nCOPY --from=nvidia/cuda:10.2-base-ubuntu18.04 /x /x", BASE_REMOVED, "error",
    ),
    "faster-whisper beside cuDNN 8": (
        "FROM nvidia/cuda:12.1.1-cudnn8-runtime-ubuntu22.04\nRUN pip3 install faster-whisper==1.0.3",
        "image-framework-libraries-missing", "warning",
    ),
    "an old CTranslate2 beside cuDNN 9": (
        "FROM nvidia/cuda:12.4.1-cudnn-runtime-ubuntu22.04\n"
        "RUN pip3 install faster-whisper==1.0.3 ctranslate2==4.4.0",
        "image-framework-libraries-missing", "warning",
    ),
    "a page of wheels as an index": (
        "FROM rocm/dev-ubuntu-22.04:7.1.1-complete\n"
        "RUN pip install torch==2.8.0 --index-url https://repo.radeon.com/rocm/manylinux/rocm-rel-7.1.1/",
        "image-torch-without-index", "error",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", FAULTY)
def test_each_fault_is_told_alone(case: str):
    text, slug, severity = FAULTY[case]
    assert told(text) == [(slug, severity)]


HEALTHY = {
    "flash-attn with nvcc, beside torch": DEVEL + "RUN pip install flash-attn --no-build-isolation",
    "a ready wheel": RUNTIME + "RUN pip install https://e.example/flash_attn-2.7.4-cp311-cp311-linux_x86_64.whl",
    "nvcc of the distribution": RUNTIME + "RUN apt-get install -y cuda-nvcc-12-4\n"
    "RUN pip install flash-attn --no-build-isolation",
    "nothing is compiled": RUNTIME + "ENV FLASH_ATTENTION_SKIP_CUDA_BUILD=TRUE\n"
    "RUN pip install flash-attn --no-build-isolation",
    "ROCm": "FROM rocm/pytorch:latest\nRUN pip install flash-attn --no-build-isolation",
    "an unknown base": "FROM e.example/base\nRUN pip install flash-attn",
    "an old tensorflow-gpu": "FROM python:3.8\nRUN pip install tensorflow-gpu==2.9.3",
    "pytorch of another channel": "FROM continuumio/miniconda3\nRUN conda install pytorch=2.7.0 -c conda-forge",
    "a stage that nothing needs": "FROM nvidia/cuda:10.2-devel-ubuntu18.04 AS b\nRUN make\nFROM python:3.12\n",
    "CTranslate2 without Whisper": "FROM nvidia/cuda:12.1.1-cudnn8-runtime-ubuntu22.04\nRUN pip install ctranslate2",
    "a page of wheels as one": "FROM rocm/dev-ubuntu-22.04:7.1.1-complete\n"
    "RUN pip install torch==2.8.0 -f https://repo.radeon.com/rocm/manylinux/rocm-rel-7.1.1/",
}


@pytest.mark.parametrize("case", HEALTHY)
def test_nothing_is_told_of_a_good_file(case: str):
    assert told(HEALTHY[case]) == []


def test_uv_builds_without_isolation_what_the_project_names():
    project = (
        '[project]\nname = "a"\ndependencies = ["flash-attn"]\n[tool.uv]\nno-build-isolation-package = ["flash-attn"]'
    )
    text = DEVEL + "COPY . /a\nRUN uv pip install --system -e /a"
    assert told(text, {"./pyproject.toml": project}) == []
    assert told(text, {"./pyproject.toml": project.partition("[tool.uv]")[0]}) == [(NOT_BUILT, "error")]


@pytest.mark.parametrize(("python", "pin"), [("3.9", "==2.17.1"), ("3.12", "==2.21.0"), ("3.8", "")])
def test_what_takes_the_place_of_a_package_is_pinned_for_the_python(python: str, pin: str):
    (one,) = findings(f"FROM python:{python}-slim\nRUN pip install tensorflow-gpu")
    assert lines(one) == f"Dockerfile:2: RUN pip install 'tensorflow[and-cuda]{pin}'"


def test_the_devel_image_and_the_release_for_the_cudnn_are_lines_to_copy():
    (one,) = findings(RUNTIME + "RUN pip install flash-attn --no-build-isolation")
    assert lines(one) == "Dockerfile:1: FROM pytorch/pytorch:2.6.0-cuda12.4-cudnn9-devel"
    (one,) = findings(RUNTIME + "RUN pip install flash-attn")
    assert lines(one).split("\n") == [
        "Dockerfile:1: FROM pytorch/pytorch:2.6.0-cuda12.4-cudnn9-devel",
        "Dockerfile:2: RUN pip install --no-build-isolation flash-attn",
    ]
    (one,) = findings("FROM nvidia/cuda:12.1.1-cudnn8-runtime-ubuntu22.04\nRUN pip3 install faster-whisper==1.0.3")
    assert lines(one) == "Dockerfile:2: RUN pip3 install faster-whisper==1.0.3 ctranslate2==4.4.0"
    assert "CTranslate2 4.8.5 of faster-whisper needs cuDNN 9" in one.message


@pytest.mark.parametrize(
    ("install", "project"),
    [
        ("uv sync", SOURCES.replace('name = "own"', 'name = ["own"]')),
        ("uv sync", SOURCES.replace('index = "own"', 'index = ["own"]')),
        (
            "poetry install",
            '[tool.poetry.dependencies]\ntorch = {version = "2.6.0", source = ["own"]}\n'
            f'[[tool.poetry.source]]\nname = ["own"]\nurl = "{CU128}"\n',
        ),
    ],
)
def test_an_index_whose_name_is_no_text_is_no_crash(tmp_path: Path, install: str, project: str):
    (tmp_path / "Dockerfile").write_text(f"{BASE}RUN {install}\n")
    (tmp_path / "pyproject.toml").write_text(project)
    result = CliRunner().invoke(dockerfile, [str(tmp_path / "Dockerfile")], standalone_mode=False)
    assert result.exception is None and result.output
