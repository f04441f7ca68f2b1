"""One small file for each fault of images, compose files and pasted texts, by its slug."""

from __future__ import annotations

from gpudoctor.dockerfile.compose import read_compose
from gpudoctor.dockerfile.image import Image
from gpudoctor.dockerfile.kubernetes import read_manifests
from gpudoctor.dockerfile.recipe import Recipe, RecipeService
from gpudoctor.dockerfile.stages import read_dockerfile
from gpudoctor.intake.described import imagined_machine
from gpudoctor.intake.description import Description
from tests.support.check_cases import matrix
from tests.support.pasted import DMESG, TWO_MACHINES, WINDOWS

_CU121 = "--index-url https://download.pytorch.org/whl/cu121"

DOCKERFILES: dict[str, str] = {
    "image-installs-driver": "FROM ubuntu:22.04\nRUN apt-get update && apt-get install -y nvidia-driver-550",
    "image-torch-without-index": "FROM python:3.12\nRUN pip install torch==2.6.0+cu124",
    "image-cuda-older-than-wheel": "FROM nvidia/cuda:11.8.0-devel-ubuntu22.04\nRUN pip install torch==2.6.0\n"
    "RUN pip install --no-build-isolation pytorch3d",
    "image-torch-other-vendor": "FROM rocm/dev-ubuntu-22.04:6.4\nRUN pip install torch",
    "image-no-torch-wheel": f"FROM python:3.12\nRUN pip install torch==2.6.0 {_CU121}",
    "image-hides-gpus": "FROM nvidia/cuda:12.4.1-base-ubuntu22.04\nENV NVIDIA_DRIVER_CAPABILITIES=graphics,utility",
    "image-bakes-gfx-override": "FROM rocm/dev-ubuntu-22.04:6.4\nENV HSA_OVERRIDE_GFX_VERSION=10.3.0",
    "image-stub-libcuda": "FROM nvidia/cuda:12.4.1-devel-ubuntu22.04\n"
    "ENV LD_LIBRARY_PATH=/usr/local/cuda/lib64/stubs:$LD_LIBRARY_PATH",
    "image-compat-library": "FROM nvidia/cuda:12.4.1-base-ubuntu22.04\n"
    "ENV LD_LIBRARY_PATH=/usr/local/cuda/compat:$LD_LIBRARY_PATH",
    "image-torch-not-for-jetson": "FROM nvcr.io/nvidia/l4t-jetpack:r36.4.0\nRUN pip3 install torch",
    "image-torch-backend-auto": "FROM python:3.12-slim\nRUN uv pip install --system vllm --torch-backend=auto",
    "image-base-removed": "FROM nvidia/cuda:10.2-cudnn7-devel-ubuntu18.04",
    "image-extension-not-built": "FROM nvidia/cuda:12.4.1-cudnn-runtime-ubuntu22.04\nRUN pip install torch==2.6.0\n"
    "RUN pip install --no-build-isolation flash-attn",
    "image-package-removed": "FROM python:3.10-slim\nRUN pip install tensorflow-gpu",
    "image-breaks-system-packages": "FROM debian:bookworm\nRUN pip install --break-system-packages torch",
    "image-pip-refused": "FROM ubuntu:24.04\nRUN apt-get update && apt-get install -y python3-pip\n"
    "RUN pip3 install torch",
    "image-environment-off-path": "FROM python:3.12-slim AS build\nRUN python -m venv /opt/venv\n"
    "RUN /opt/venv/bin/pip install torch\nFROM python:3.12-slim\nCOPY --from=build /opt/venv /opt/venv\n"
    'CMD ["python", "train.py"]',
    "image-environment-incomplete": "FROM python:3.12-slim AS build\nRUN python -m venv /opt/venv\n"
    "RUN /opt/venv/bin/pip install torch\nFROM ubuntu:24.04\nCOPY --from=build /opt/venv /opt/venv\n"
    'CMD ["/opt/venv/bin/python", "train.py"]',
    "image-user-without-access": "FROM python:3.12-slim\nRUN python -m venv /root/venv\n"
    "RUN /root/venv/bin/pip install torch\nRUN useradd app\nUSER app\n"
    'CMD ["/root/venv/bin/python", "train.py"]',
    "image-preflight-without-command": "FROM python:3.12-slim\nRUN pip install gpudoctor-cli\n"
    'ENTRYPOINT gpudoctor preflight --\nCMD ["python", "train.py"]',
    "compose-drops-preflight": "FROM pytorch/pytorch:2.6.0-cuda12.4-cudnn9-runtime\nRUN pip install gpudoctor-cli\n"
    'ENTRYPOINT ["gpudoctor", "preflight", "--"]\nCMD ["python", "train.py"]',
    "image-too-new-for-driver": "FROM nvidia/cuda:13.0.1-base-ubuntu22.04",
    "image-framework-libraries-missing": "FROM nvidia/cuda:12.4.1-cudnn-runtime-ubuntu22.04\n"
    "RUN pip install onnxruntime-gpu==1.31.1",
    "image-framework-other-vendor": "FROM rocm/dev-ubuntu-24.04:7.0-complete\nRUN pip install 'jax[cuda12]'",
    "image-packages-overwrite": "FROM python:3.12-slim\nRUN pip install onnxruntime 'onnxruntime-gpu[cuda,cudnn]'",
    "image-framework-cpu-only": "FROM nvidia/cuda:12.4.1-cudnn-runtime-ubuntu22.04\nRUN pip install jax flax",
    "image-package-requires-other-torch": "FROM python:3.12-slim\nRUN pip install torch==2.6.0 vllm==0.11.2",
    "image-package-conflict": "FROM python:3.11-slim\nRUN pip install torch==2.1.0 numpy==2.1.0",
    "image-torch-cpu-only": "FROM nvidia/cuda:12.8.1-cudnn-runtime-ubuntu22.04\nRUN pip install torch==2.9.1 "
    "--index-url https://download.pytorch.org/whl/cpu",
    "image-torch-replaced": "FROM nvcr.io/nvidia/pytorch:25.10-py3\nRUN pip install torch==2.9.1",
    "image-extension-archs": "FROM pytorch/pytorch:2.8.0-cuda12.8-cudnn9-devel\n"
    'ENV TORCH_CUDA_ARCH_LIST="8.0;8.6"\nRUN pip install --no-build-isolation ./ops',
    "image-preflight-ignored": "FROM pytorch/pytorch:2.9.1-cuda12.8-cudnn9-runtime\nRUN pip install gpudoctor-cli\n"
    'COPY start.sh /\nENTRYPOINT ["/start.sh"]',
    "image-for-other-cards": "FROM nvidia/cuda:12.4.1-base-ubuntu22.04",
}
START_SCRIPTS: dict[str, str] = {"image-preflight-ignored": "gpudoctor preflight\npython train.py\n"}
"""What start.sh of these Dockerfiles says."""
COMPOSE_FILES: dict[str, str] = {
    "compose-no-device": "services:\n  train:\n    image: pytorch/pytorch:2.6.0-cuda12.4-cudnn9-runtime",
    "compose-device-access": "services:\n  train:\n    image: rocm/pytorch:latest\n    user: app\n"
    "    devices: [/dev/kfd, /dev/dri]\n    shm_size: 8g",
    "compose-hides-gpus": "services:\n  train:\n    image: pytorch/pytorch:2.6.0-cuda12.4-cudnn9-runtime\n"
    "    gpus: all\n    shm_size: 8g\n    environment: [CUDA_VISIBLE_DEVICES=all]",
    "compose-device-misnamed": "services:\n  train:\n    image: rocm/pytorch:latest\n    shm_size: 8g\n"
    "    devices: [/dev/kfd, '/dev/dri/render128:/dev/dri/render128']",
    "compose-other-vendor": "services:\n  serve:\n    image: vllm/vllm-openai:v0.11.0\n    shm_size: 8g\n"
    "    devices: [/dev/kfd, /dev/dri]",
    "compose-without-libcuda": "services:\n  serve:\n    image: vllm/vllm-openai:v0.11.0\n    shm_size: 8g\n"
    "    deploy: {resources: {reservations: {devices: [{driver: nvidia, count: 1, capabilities: [gpu, utility]}]}}}",
    "compose-reservation-refused": "services:\n  serve:\n    image: vllm/vllm-openai:v0.11.0\n    shm_size: 8g\n"
    "    deploy: {resources: {reservations: {devices: [{driver: nvidia, count: all}]}}}",
    "compose-drops-preflight": "services:\n  train:\n    build: .\n    gpus: all\n    shm_size: 8g\n"
    "    entrypoint: [python, train.py]",
    "compose-small-shm": "services:\n  train:\n    image: pytorch/pytorch:2.6.0-cuda12.4-cudnn9-runtime\n"
    "    gpus: all",
}
MANIFESTS: dict[str, str] = {
    "manifest-gpu-request": "apiVersion: v1\nkind: Pod\nmetadata: {name: train}\nspec:\n  containers:\n"
    "    - name: train\n      image: pytorch/pytorch:2.6.0-cuda12.4-cudnn9-runtime\n"
    "      resources: {requests: {nvidia.com/gpu: 1}}",
}
TEXTS: dict[str, str] = {
    "text-incomplete": "Since the update my RTX 4090 is not used any more, please help!",
    "text-contradictory": "PyTorch version: 2.5.1+cu124\nNvidia driver version: 550.90.07\n\n"
    "| NVIDIA-SMI 570.133.07    Driver Version: 570.133.07    CUDA Version: 12.8 |\n" + DMESG,
    "text-of-several-machines": TWO_MACHINES,
    "text-from-another-system": WINDOWS,
}
DESCRIBED: dict[str, tuple[str, str]] = {
    "image-too-new-for-driver": ("RTX 4090", "550.54.15"),
    "image-extension-archs": ("RTX 5090", ""),
    "image-for-other-cards": ("RX 7900 XTX", ""),
}
"""GPU and driver of the machine that an image is judged for."""


def recipe(slug: str) -> Recipe:
    """The Dockerfile or compose file with that fault, read."""
    if slug in COMPOSE_FILES or slug in MANIFESTS:
        started = []
        built = read_dockerfile("Dockerfile", DOCKERFILES[slug], matrix(), {}.get) if slug in DOCKERFILES else None
        cluster = slug in MANIFESTS
        of_file = (
            read_manifests("pod.yaml", MANIFESTS[slug])
            if cluster
            else read_compose("compose.yaml", COMPOSE_FILES[slug])
        )
        for service in of_file:
            facts = matrix().images.base_image(service.image or "")
            named = Image("compose.yaml", "", service.image, service.line, facts, "linux-x86_64")
            started.append(RecipeService(service, built or named))
        return Recipe(matrix(), (), tuple(started))
    gpu, driver = DESCRIBED.get(slug, ("", ""))
    gpus = imagined_machine(Description(gpus=(gpu,), driver=driver), {}, matrix()).gpus if gpu else ()
    files = {"start.sh": START_SCRIPTS.get(slug)}
    image = read_dockerfile("Dockerfile", DOCKERFILES[slug], matrix(), files.get, {})
    return Recipe(matrix(), (image,), (), gpus, driver)
