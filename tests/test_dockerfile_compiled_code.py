"""Lists of GPUs that an image compiles by: one that leaves out the described GPU is told, one with it is not, and
what is not sure is unknown."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpudoctor.dockerfile.recipe import Recipe
from gpudoctor.dockerfile.stages import read_dockerfile
from gpudoctor.engine import judge_recipe
from gpudoctor.finding import Finding
from gpudoctor.intake.described import imagined_machine
from gpudoctor.intake.description import Description
from gpudoctor.suites import image_checks
from tests.support.check_cases import matrix
from tests.test_dockerfile import dockerfile_report

CUDA = "FROM nvidia/cuda:12.8.1-cudnn-devel-ubuntu22.04"
ROCM = "FROM rocm/dev-ubuntu-24.04:7.0.2-complete"


def judged(
    text: str, gpu: str, driver: str = "", files: dict[str, str] | None = None, **arguments: str
) -> tuple[list[Finding], list[str]]:
    """What the check says of lists, and what it could not judge of them."""
    image = read_dockerfile("Dockerfile", text, matrix(), (files or {}).get, arguments)
    gpus = imagined_machine(Description(gpus=(gpu,), driver=driver), {}, matrix()).gpus
    found = judge_recipe(Recipe(matrix(), (image,), (), gpus, driver), image_checks())
    unknown = [one.why for one in found.not_judged if one.id == "GPD615" and one.matters]
    return [one for one in found.findings if one.slug == "image-extension-archs"], unknown


def answer(text: str, gpu: str, driver: str = "", **arguments: str) -> str:
    found, unknown = judged(text, gpu, driver, **arguments)
    assert all(one.severity == "warning" for one in found)
    return "warning" if found else "unknown" if unknown else "silent"


NVIDIA = [
    ("cmake -B build -DGGML_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES=86", "warning", "silent", "silent"),
    ('cmake -B build -D CMAKE_CUDA_ARCHITECTURES:STRING="80-real;86-real"', "warning", "silent", "warning"),
    ("cmake -B build -DCMAKE_CUDA_ARCHITECTURES=90-virtual", "warning", "warning", "silent"),
    ("cmake -B build -DCMAKE_CUDA_ARCHITECTURES=native", "silent", "silent", "silent"),
    ("cmake -B build -DCMAKE_CUDA_ARCHITECTURES=all-major", "silent", "silent", "silent"),
    ("CUDAARCHS=86-real cmake -B build", "warning", "silent", "warning"),
    ("cmake -B build -DCUDA_ARCH_BIN=8.6 -DCUDA_ARCH_PTX=", "warning", "silent", "warning"),
    ("cmake -B build -DCUDA_ARCH_BIN=8.6 -DCUDA_ARCH_PTX=8.6", "warning", "silent", "silent"),
    ('cmake -B build -DCMAKE_CUDA_FLAGS="-gencode arch=compute_80,code=sm_80"', "warning", "silent", "warning"),
    ("nvcc -gencode arch=compute_80,code=[sm_80,compute_80] -o a a.cu", "warning", "silent", "silent"),
    ("nvcc -gencode=arch=compute_75,code=sm_75 -gencode=arch=compute_86,code=sm_86", "silent", "silent", "warning"),
    ("nvcc -arch=sm_89 a.cu -o a", "warning", "warning", "silent"),
    ("nvcc -arch=native a.cu -o a", "silent", "silent", "silent"),
    ('make NVCCFLAGS="-gencode arch=compute_86,code=sm_86"', "warning", "silent", "warning"),
    ('CMAKE_ARGS="-DGGML_CUDA=on -DCMAKE_CUDA_ARCHITECTURES=86-real" pip install llama-cpp-python', "warning",
     "silent", "warning"),
    ('pip install llama-cpp-python -C cmake.args="-DGGML_CUDA=on;-DCMAKE_CUDA_ARCHITECTURES=86-real"', "warning",
     "silent", "warning"),
    ("CMAKE_ARGS=-DCMAKE_CUDA_ARCHITECTURES=86-real pip install flask", "silent", "silent", "silent"),
    ("TCNN_CUDA_ARCHITECTURES=86 pip install --no-build-isolation ./bindings/torch", "warning", "silent", "silent"),
    ("export TORCH_CUDA_ARCH_LIST=8.6 && pip install --no-build-isolation .", "warning", "silent", "warning"),
    ("TORCH_CUDA_ARCH_LIST=8.6+PTX python setup.py bdist_wheel", "warning", "silent", "silent"),
    ("TORCH_CUDA_ARCH_LIST=Ampere pip wheel --no-build-isolation ./ops", "warning", "silent", "silent"),
    ("TORCH_CUDA_ARCH_LIST=8.6 pip install git+https://github.com/acme/ops", "unknown", "silent", "unknown"),
    ("TORCH_CUDA_ARCH_LIST=8.6 pip install -e ./ops", "unknown", "silent", "unknown"),
    ("TORCH_CUDA_ARCH_LIST=8.6 ./compile.sh", "unknown", "silent", "unknown"),
    ("TORCH_CUDA_ARCH_LIST=8.6 pip install --target /opt/site flask /wheels/ops.whl", "silent", "silent", "silent"),
    ("CMAKE_CUDA_ARCHITECTURES=86 make -j8", "unknown", "silent", "silent"),
    ("CUDA_COMPUTE_CAP=86 cargo build --release --features cuda", "warning", "silent", "silent"),
    ('if [ -n "$X" ]; then cmake -B build -DCMAKE_CUDA_ARCHITECTURES=86-real; fi', "unknown", "silent", "unknown"),
    ("cmake --build build -DCMAKE_CUDA_ARCHITECTURES=86", "silent", "silent", "silent"),
    ('cmake -B build -DCMAKE_CUDA_ARCHITECTURES="$(detect)"', "unknown", "unknown", "unknown"),
]  # fmt: skip


@pytest.mark.parametrize(("command", "turing", "ampere", "blackwell"), NVIDIA)
def test_lists_for_nvidia(command: str, turing: str, ampere: str, blackwell: str):
    text = f"{CUDA}\nRUN {command}"
    assert [answer(text, gpu) for gpu in ("T4", "RTX 3090", "RTX 5090")] == [turing, ampere, blackwell]


AMD = [
    ("cmake -B build -DGGML_HIP=ON -DAMDGPU_TARGETS=gfx1201", "warning", "warning", "silent"),
    ('cmake -B build -DGPU_TARGETS="gfx1100;gfx1201"', "silent", "warning", "silent"),
    ("cmake -B build -DCMAKE_HIP_ARCHITECTURES=gfx1100,gfx1032", "silent", "silent", "warning"),
    ("cmake -B build -DAMDGPU_TARGETS=gfx11-generic", "silent", "warning", "warning"),
    ("cmake -B build -DAMDGPU_TARGETS=all", "silent", "silent", "silent"),
    ("hipcc --offload-arch=gfx1100 --offload-arch=gfx1201 a.hip -o a", "silent", "warning", "silent"),
    ("HCC_AMDGPU_TARGET=gfx1100 hipcc a.hip -o a", "silent", "warning", "warning"),
    ("PYTORCH_ROCM_ARCH=gfx90a pip install --no-build-isolation .", "warning", "warning", "warning"),
    ('PYTORCH_ROCM_ARCH="gfx1100 gfx1201" python setup.py install', "silent", "warning", "silent"),
    ("GPU_ARCHS=gfx942 pip install --no-build-isolation flash-attn", "warning", "warning", "warning"),
    ("GPU_ARCHS=gfx942 pip install --no-build-isolation .", "unknown", "unknown", "unknown"),
    ("CMAKE_ARGS=-DAMDGPU_TARGETS=gfx1100 pip install llama-cpp-python", "silent", "warning", "warning"),
    ("make GPU_TARGETS=gfx1100 server", "silent", "warning", "warning"),
    ("AMDGPU_TARGETS=gfx1100 make server", "silent", "unknown", "unknown"),
]  # fmt: skip


@pytest.mark.parametrize(("command", "rdna3", "rdna2", "rdna4"), AMD)
def test_lists_for_amd(command: str, rdna3: str, rdna2: str, rdna4: str):
    text = f"{ROCM}\nRUN {command}"
    assert [answer(text, gpu) for gpu in ("RX 7900 XTX", "RX 6600", "RX 9070")] == [rdna3, rdna2, rdna4]


BUILDER = f"""ARG TARGETS=gfx1201
{ROCM} AS builder
ARG TARGETS=gfx1201
RUN cmake -B build -DAMDGPU_TARGETS="${{TARGETS}}" && cmake --build build
{ROCM} AS final
"""


def test_a_stage_counts_if_something_of_it_is_copied():
    copied = f"{BUILDER}COPY --from=builder /src/build/bin/server /usr/local/bin/"
    assert answer(copied, "RX 6600") == "warning"
    assert answer(copied, "RX 9070") == "silent"
    assert answer(copied, "RX 6600", TARGETS="gfx1032") == "silent"
    assert answer(f"{BUILDER}RUN true", "RX 6600") == "silent"
    mounted = f"{BUILDER}RUN --mount=type=bind,from=builder,source=/src,target=/src cp /src/server /bin"
    assert answer(mounted, "RX 6600") == "warning"
    twice = f"{BUILDER}COPY --from=builder /a /a\n{ROCM}\nCOPY --from=final /a /a"
    assert answer(twice, "RX 6600") == "warning"


def test_a_variable_of_a_stage_counts_for_its_wheels():
    text = f"""{CUDA} AS builder
ENV FORCE_CUDA=1 TORCH_CUDA_ARCH_LIST="8.0;8.6;9.0+PTX"
RUN pip wheel --no-build-isolation --wheel-dir=/wheels ./ops
FROM nvidia/cuda:12.8.1-cudnn-runtime-ubuntu22.04
COPY --from=builder /wheels /wheels
RUN pip install /wheels/*.whl"""
    assert answer(text, "RTX 5090", "570.133.07") == "silent"
    (one,) = judged(text, "T4", "570.133.07")[0]
    assert one.subject == "Dockerfile:2"
    assert one.fixes[0].remedies[0].text == 'Dockerfile:2: TORCH_CUDA_ARCH_LIST="8.0;8.6;9.0+PTX;7.5"'  # type: ignore[union-attr]


def test_a_list_that_one_command_surely_reads_is_not_in_doubt_for_another():
    text = f"{CUDA}\nENV TORCH_CUDA_ARCH_LIST=9.0\nRUN pip install -e .\nRUN pip install --no-build-isolation ./ops"
    found, unknown = judged(text, "RTX 5090")
    assert [one.subject for one in found] == ["Dockerfile:2"] and unknown == []
    both = f"{ROCM}\nENV GPU_ARCHS=gfx90a PYTORCH_ROCM_ARCH=gfx90a\nRUN pip install --no-build-isolation ."
    for text in (both, both.replace("GPU_ARCHS", "HIP_ARCHITECTURES")):
        found, unknown = judged(text, "MI300X")
        assert len(found) == 1 and unknown == []


def test_ptx_needs_a_driver_that_knows_it():
    text = f"{CUDA}\nENV TORCH_CUDA_ARCH_LIST=8.0+PTX\nRUN pip install --no-build-isolation ./ops"
    assert answer(text, "H100 PCIe", "570.133.07") == "silent"
    assert answer(text, "H100 PCIe", "535.104.05") == "warning"


def test_a_list_that_depends_on_something_unknown_is_unknown():
    text = f"{ROCM}\nARG GFX\nENV PYTORCH_ROCM_ARCH=${{GFX}}\nRUN pip install --no-build-isolation ./ops"
    assert answer(text, "RX 6600") == "unknown"
    assert answer(text, "RX 6600", GFX="gfx1100") == "warning"
    assert answer(text, "RX 6600", GFX="gfx1032") == "silent"
    assert answer(text.replace("--no-build-isolation ./ops", "flask"), "RX 6600") == "silent"


def test_a_list_for_another_vendor_is_not_judged():
    assert answer(f"{CUDA}\nRUN cmake -B build -DAMDGPU_TARGETS=gfx1100", "RTX 3090") == "silent"


def test_the_target_of_the_override_counts():
    text = f"{ROCM}\nENV HSA_OVERRIDE_GFX_VERSION=10.3.0\nRUN cmake -B build -DGPU_TARGETS="
    assert answer(text + "gfx1030", "RX 6600") == "silent"
    assert answer(text + "gfx1032", "RX 6600") == "warning"


@pytest.mark.parametrize(
    ("text", "gpu", "fix"),
    [
        (f"{ROCM}\nRUN cmake -B b -DGPU_TARGETS=gfx942", "RX 7900 XTX",
         'Dockerfile:2: -DGPU_TARGETS="gfx942;gfx1100"'),
        (f"{ROCM}\nRUN cmake -B b -DGPU_TARGETS=gfx942", "RX 6600", 'Dockerfile:2: -DGPU_TARGETS="gfx942;gfx1030"\n'
         "Dockerfile:1: below it: ENV HSA_OVERRIDE_GFX_VERSION=10.3.0"),
        (f"{ROCM}\nRUN cmake -B b -DGPU_TARGETS=gfx1030", "RX 6600",
         "Dockerfile:1: below it: ENV HSA_OVERRIDE_GFX_VERSION=10.3.0"),
        (f"{ROCM}\nRUN hipcc --offload-arch=gfx942 a.hip", "RX 9070",
         "Dockerfile:2: --offload-arch=gfx942 --offload-arch=gfx1201"),
        (f"{CUDA}\nRUN nvcc -arch=sm_90 a.cu", "T4", "Dockerfile:2: -arch=sm_90 -gencode arch=compute_75,code=sm_75"),
        ("FROM nvidia/cuda:11.8.0-devel-ubuntu22.04\nRUN cmake -B b -DCMAKE_CUDA_ARCHITECTURES=86-real", "RTX 5090",
         "Dockerfile:1: FROM an image with CUDA 12.8 or newer\n"
         'Dockerfile:2: -DCMAKE_CUDA_ARCHITECTURES="86-real;120"'),
        ("FROM nvidia/cuda:13.0.1-devel-ubuntu22.04\nRUN cmake -B b -DCMAKE_CUDA_ARCHITECTURES=86", "GTX 1080",
         'Dockerfile:1: FROM an image with CUDA 12.9 or older\nDockerfile:2: -DCMAKE_CUDA_ARCHITECTURES="86;61"'),
    ],
)  # fmt: skip
def test_the_fix_is_a_list_that_this_compiler_takes(text: str, gpu: str, fix: str):
    (one,) = judged(text, gpu)[0]
    assert one.fixes[0].remedies[0].text == fix  # type: ignore[union-attr]


PACKAGE = "pip install --no-build-isolation git+https://example.org/own.git"
SCRIPTS = {
    "an export of the script": (
        f"{CUDA}\nCOPY build.sh /tmp/\nRUN bash /tmp/build.sh",
        f'set -e\nexport TORCH_CUDA_ARCH_LIST="8.6"\n{PACKAGE}\n',
        "build.sh:2",
    ),
    "the last of two": (
        f"{CUDA}\nCOPY build.sh .\nRUN ./build.sh",
        f'export TORCH_CUDA_ARCH_LIST="9.0"\nexport TORCH_CUDA_ARCH_LIST="8.6"\n{PACKAGE}\n',
        "build.sh:2",
    ),
    "ENV before a script": (
        f"{CUDA}\nENV TORCH_CUDA_ARCH_LIST=8.6\nCOPY build.sh .\nRUN ./build.sh",
        f"{PACKAGE}\n",
        "Dockerfile:2",
    ),
    "an export before a script": (
        f"{CUDA}\nCOPY build.sh .\nRUN export TORCH_CUDA_ARCH_LIST=8.6 && bash build.sh",
        f"{PACKAGE}\n",
        "Dockerfile:3",
    ),
    "for the script alone": (
        f"{CUDA}\nCOPY build.sh .\nRUN TORCH_CUDA_ARCH_LIST=8.6 bash build.sh",
        f"{PACKAGE}\n",
        "Dockerfile:3",
    ),
    "a script of a script": (
        f"{CUDA}\nCOPY build.sh more.sh ./\nRUN ./build.sh",
        "export TORCH_CUDA_ARCH_LIST=8.6\n./more.sh\n",
        "build.sh:1",
    ),
    "another line of RUN": (
        f"{CUDA}\nRUN apt-get update && \\\n    export TORCH_CUDA_ARCH_LIST=8.6 && \\\n    {PACKAGE}",
        "",
        "Dockerfile:3",
    ),
    "an option in a script": (
        f"{CUDA}\nCOPY build.sh .\nRUN ./build.sh",
        "cd /src\ncmake -B build -DCMAKE_CUDA_ARCHITECTURES=86-real\n",
        "build.sh:2",
    ),
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_fix_names_the_line_that_sets_the_list(name: str):
    text, script, place = SCRIPTS[name]
    (one,) = judged(text, "H100", files={"build.sh": script, "more.sh": f"{PACKAGE}\n"})[0]
    assert one.subject == place
    assert one.fixes[0].remedies[0].text.startswith(f"{place}: ")  # type: ignore[union-attr]


def test_one_list_for_two_commands_is_one_problem():
    text = f"{CUDA}\nENV TORCH_CUDA_ARCH_LIST=8.6\nRUN {PACKAGE}\nRUN {PACKAGE}"
    (one,) = judged(text, "H100")[0]
    assert [place.source for place in one.evidence] == ["Dockerfile:2", "Dockerfile:3", "Dockerfile:4"]


def test_a_list_that_an_argument_holds_is_made_longer_there(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text(
        "FROM pytorch/pytorch:2.7.1-cuda12.8-cudnn9-devel\nARG archs='8.0;8.6'\n"
        "ENV TORCH_CUDA_ARCH_LIST=${archs}\nRUN pip install --no-build-isolation git+https://example.org/kernels\n"
    )
    found = dockerfile_report(tmp_path, "--gpu", "RTX 5090")["findings"]
    (own,) = [one for one in found if one["slug"] == "image-extension-archs"]
    assert own["fixes"][0]["steps"][0]["text"].endswith("Dockerfile:2: ARG archs='8.0;8.6;12.0'")
