"""The lines that fixes of services name: a key that a file has is added to, and not written a second time."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.test_dockerfile import dockerfile_report, findings, lines, of_compose, run
from tests.test_dockerfile_amd_images import first_fix

OLLAMA = "image: ollama/ollama:rocm"
ROCM = "image: rocm/pytorch:rocm6.4_ubuntu24.04_py3.12_pytorch_release_2.6.0"
CUDA = "image: pytorch/pytorch:2.9.1-cuda12.8-cudnn9-runtime"
PREFLIGHT = f"{CUDA}\n    entrypoint: [gpudoctor, preflight, --require, 'gpu>=2', --, python, t.py]"
RESERVED = "deploy:\n      resources:\n        reservations:\n          devices:"
FIXES = {
    "no key": (ROCM, "compose-no-device", "2: below a:\n    devices: [/dev/kfd, /dev/dri]"),
    "devices without kfd": (f"{OLLAMA}\n    devices:\n      - /dev/dri:/dev/dri", "compose-no-device",
                            "4: add to devices of a:\n    - /dev/kfd"),
    "devices without dri": (f"{ROCM}\n    devices:\n    - /dev/kfd", "compose-no-device",
                            "4: add to devices of a:\n    - /dev/dri"),
    "between brackets": (f"{ROCM}\n    devices: [/dev/kfd]", "compose-no-device",
                         "4: add to devices of a, inside the brackets:\n    /dev/dri"),
    "limits of memory": (f"{PREFLIGHT}\n    deploy:\n      resources:\n        limits:\n          memory: 8G",
                         "compose-no-device", "6: add to deploy.resources of a:\n    reservations:\n      devices: "
                         "[{driver: nvidia, count: all, capabilities: [gpu]}]"),
    "limits between brackets": (f"{PREFLIGHT}\n    deploy: {{resources: {{limits: {{memory: 8G}}}}}}",
                                "compose-no-device", "5: add to deploy.resources of a, inside the brackets:\n    "
                                "reservations: {devices: [{driver: nvidia, count: all, capabilities: [gpu]}]}"),
    "too few": (f"{PREFLIGHT}\n    {RESERVED}\n            - driver: nvidia\n              count: 1\n"
                "              capabilities: [gpu]", "compose-no-device", "10: count: 2"),
    "two reservations": (f"{PREFLIGHT}\n    gpus: [{{count: 1}}, {{count: 0}}]", "compose-no-device",
                         "2: 2 GPUs, all reservations of a together"),
    "no capabilities": (f"{CUDA}\n    shm_size: 8gb\n    {RESERVED}\n            - driver: nvidia\n"
                        "              count: all", "compose-reservation-refused",
                        "9: add to deploy.resources.reservations.devices[0] of a:\n    capabilities: [gpu]"),
    "the second without": (f"{CUDA}\n    shm_size: 8gb\n    {RESERVED}\n            - capabilities: [gpu]\n"
                           "            - driver: nvidia", "compose-reservation-refused",
                           "10: add to deploy.resources.reservations.devices[1] of a:\n    capabilities: [gpu]"),
    "a variable in a list": (f"{CUDA}\n    shm_size: 8gb\n    gpus: all\n    environment:\n"
                             "      - A=1\n      - CUDA_VISIBLE_DEVICES=all", "compose-hides-gpus",
                             "8: leave out CUDA_VISIBLE_DEVICES, or write numbers:\n    "
                             "- CUDA_VISIBLE_DEVICES=0"),
    "groups": (f"{ROCM}\n    user: app\n    group_add:\n    devices: [/dev/kfd, /dev/dri]", "compose-device-access",
               '5: add to group_add of a:\n    - video\n    - "GID of /dev/kfd"\n'
               "with the host's number: stat -c %g /dev/kfd"),
    "a misnamed node": (f"{ROCM}\n    devices:\n      - /dev/kfd\n      - /dev/dri/render128",
                        "compose-device-misnamed", "6: /dev/dri/renderD128 in the devices of a"),
}  # fmt: skip


@pytest.mark.parametrize("name", FIXES)
def test_a_fix_names_the_line_that_it_adds_to(tmp_path: Path, name: str):
    service, slug, fix = FIXES[name]
    found = [one for one in of_compose(tmp_path, f"services:\n  a:\n    {service}\n") if one["slug"] == slug]
    assert [first_fix([one]) for one in found] == [f"{tmp_path}/compose.yaml:{fix}"]


def test_a_refused_reservation_is_found_at_its_device(tmp_path: Path):
    text = f"services:\n  a:\n    {FIXES['no capabilities'][0]}\n"
    (found,) = of_compose(tmp_path, text)
    assert found["evidence"][0]["source"] == f"{tmp_path}/compose.yaml:9"


def test_what_the_message_or_the_fix_says_is_not_said_again(tmp_path: Path):
    text = f"services:\n  a:\n    {FIXES['no capabilities'][0]}\n"
    (tmp_path / "compose.yaml").write_text(text)
    _, screen = run(str(tmp_path / "compose.yaml"))
    assert "compose-reservation-refused" in screen and not {"found", "needed"} & set(screen.split())


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        (
            "ENV A=1 \\\n    # of the driver\n    {0}=graphics \\\n    B=2\n",
            "Dockerfile:4: write {0}=compute,graphics.",
        ),
        ("ENV A=1 {0}=graphics\n", "Dockerfile:2: write {0}=compute,graphics."),
        ("ENV {0}=graphics\n", "Dockerfile:2: write ENV {0}=compute,graphics."),
        ("ENV {0} graphics\n", "Dockerfile:2: write ENV {0}=compute,graphics."),
        ("ENV X_{0}=a \\\n    {0}=graphics\n", "Dockerfile:3: write {0}=compute,graphics."),
    ],
)
def test_a_variable_is_changed_where_it_is_written(text: str, fix: str):
    name = "NVIDIA_DRIVER_CAPABILITIES"
    found = findings("FROM nvidia/cuda:12.8.1-base-ubuntu22.04\n" + text.format(name))
    assert [lines(one) for one in found if one.slug == "image-hides-gpus"] == [fix.format(name)]


def test_a_dockerfile_within_a_compose_file_is_judged_on_its_lines_there(tmp_path: Path):
    (tmp_path / "compose.yaml").write_text(
        "services:\n  a:\n    gpus: all\n    build:\n      dockerfile_inline: |\n        FROM python:3.11\n"
        "        ARG BUILD=cu121\n        RUN pip install torch==2.5.1 -i https://download.pytorch.org/whl/$${BUILD}\n"
    )
    (found,) = dockerfile_report(tmp_path, "--gpu", "RTX 5090")["findings"]
    assert found["slug"] == "torch-no-arch-for-gpu"
    text = found["fixes"][0]["steps"][0]["text"].replace(f"{tmp_path}/", "")
    assert "compose.yaml:7: ARG BUILD=cu128" in text and "compose.yaml:8: RUN pip install torch==2.7.0" in text
    assert dockerfile_report(tmp_path, "--gpu", "RTX 4090")["findings"] == []
