"""Which GPUs a service is given, and what its variables make of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.test_dockerfile import dockerfile_report, of_compose

VLLM = "image: vllm/vllm-openai:v0.11.0, ipc: host"
ROCM = "image: 'rocm/vllm:latest', ipc: host"
CUDA = "CUDA_VISIBLE_DEVICES"
AMD_NODES = "devices: [/dev/kfd, /dev/dri], group_add: [video, render]"


def reserved(device: str) -> str:
    return (
        f"deploy: {{resources: {{reservations: {{devices: [{{driver: nvidia, capabilities: [gpu], {device}}}]}}}}}}"
    )


def told(tmp_path: Path, service: str, dockerfile: str = "") -> list[Any]:
    (tmp_path / "Dockerfile").write_text(dockerfile)
    return of_compose(tmp_path, f"services:\n  serve:\n    <<: {{{service}}}\n")


def fix(finding: Any, tmp_path: Path) -> str:
    text: str = finding["fixes"][0]["steps"][0]["text"]
    return text.replace(f"{tmp_path}/", "")


TOGETHER, VARIABLE = reserved('device_ids: ["0,1"]'), reserved('device_ids: ["${GPUS}"]')
BEYOND = {
    "one of the host by its number": f"{VLLM}, {reserved('device_ids: [2]')}, environment: {{{CUDA}: 2}}",
    "the second of one": f"{VLLM}, {reserved('count: 1')}, environment: ['{CUDA}=1']",
    "two of the host": f"{VLLM}, {reserved('device_ids: [2, 3]')}, environment: {{{CUDA}: '2,3'}}",
    "gpus": f"{VLLM}, gpus: [{{driver: nvidia, count: 2}}], environment: {{{CUDA}: 7}}",
    "the runtime": f"{VLLM}, runtime: nvidia, environment: {{NVIDIA_VISIBLE_DEVICES: 3, {CUDA}: 3}}",
    "by a UUID": f"{VLLM}, runtime: nvidia, environment: {{NVIDIA_VISIBLE_DEVICES: GPU-8932, {CUDA}: 1}}",
}
AMONG_THEM = {
    "the only one": f"{VLLM}, {reserved('device_ids: [2]')}, environment: {{{CUDA}: 0}}",
    "all of the host": f"{VLLM}, {reserved('count: all')}, environment: {{{CUDA}: 3}}",
    "the last of two": f"{VLLM}, {reserved('count: 2')}, environment: {{{CUDA}: '1,0'}}",
    "more than there are": f"{VLLM}, {reserved('count: 1')}, environment: {{{CUDA}: '0,1,2,3'}}",
    "a UUID": f"{VLLM}, {reserved('device_ids: [2]')}, environment: {{{CUDA}: GPU-8932f937}}",
    "a variable": f"{VLLM}, {reserved('count: 1')}, environment: {{{CUDA}: '${{GPU:-1}}'}}",
    "numbers in one text": f"{VLLM}, {TOGETHER}, environment: {{{CUDA}: 1}}",
    "numbers of a variable": f"{VLLM}, {VARIABLE}, environment: {{{CUDA}: 3}}",
    "empty, which HIP takes as unset": f"{ROCM}, {AMD_NODES}, environment: {{{CUDA}: ''}}",
    "hidden, of the other vendor": f"{VLLM}, {reserved('count: 1')}, environment: {{HIP_VISIBLE_DEVICES: -1}}",
    "hidden, and given none": f"{VLLM}, environment: {{{CUDA}: -1}}",
    "set by who starts it": f"{VLLM}, {reserved('count: 1')}, environment: [{CUDA}]",
    "privileged": f"{VLLM}, privileged: true, {reserved('count: 1')}, environment: {{{CUDA}: 1}}",
    "the runtime with all": f"{VLLM}, runtime: nvidia, environment: {{NVIDIA_VISIBLE_DEVICES: all, {CUDA}: 3}}",
    "the runtime of an image for CUDA": f"{VLLM}, runtime: nvidia, environment: {{{CUDA}: 3}}",
    "of the other vendor": f"{VLLM}, {reserved('count: 1')}, environment: {{HIP_VISIBLE_DEVICES: 1}}",
}


@pytest.mark.parametrize("name", BEYOND)
def test_a_number_of_the_host_hides_the_gpus_of_the_container(tmp_path: Path, name: str):
    (found,) = told(tmp_path, BEYOND[name])
    assert (found["slug"], found["severity"]) == ("compose-hides-gpus", "error")
    assert "leave out CUDA_VISIBLE_DEVICES" in fix(found, tmp_path)


@pytest.mark.parametrize(
    "service",
    [
        f"{VLLM}, gpus: all, environment: {{{CUDA}: -1}}",
        f"{VLLM}, {reserved('count: 1')}, environment: ['{CUDA}=']",
        f"{VLLM}, runtime: nvidia, environment: {{NVIDIA_VISIBLE_DEVICES: all, {CUDA}: ''}}",
        f"{ROCM}, {AMD_NODES}, environment: {{HIP_VISIBLE_DEVICES: -1}}",
    ],
)
def test_a_service_whose_variable_hides_the_gpus_that_it_is_given_is_told(tmp_path: Path, service: str):
    (found,) = told(tmp_path, service)
    assert (found["slug"], found["severity"]) == ("compose-hides-gpus", "warning")
    assert "leave out" in fix(found, tmp_path)


def test_a_runtime_with_an_empty_list_of_gpus_gives_none(tmp_path: Path):
    service = f"{VLLM}, runtime: nvidia, environment: ['NVIDIA_VISIBLE_DEVICES=']"
    (found,) = told(tmp_path, service)
    assert (found["slug"], found["severity"]) == ("compose-no-device", "warning")
    assert "NVIDIA_VISIBLE_DEVICES=all in the environment" in fix(found, tmp_path)
    assert told(tmp_path, service.replace("runtime: nvidia, ", "")) == []


@pytest.mark.parametrize("name", AMONG_THEM)
def test_a_number_that_the_container_has_is_fine(tmp_path: Path, name: str):
    assert told(tmp_path, AMONG_THEM[name]) == []


@pytest.mark.parametrize(
    ("limits", "hidden"),
    [
        ("nvidia.com/gpu: 1", True),
        ("nvidia.com/gpu: 1, nvidia.com/gpumem: 3000, nvidia.com/gpucores: 30", True),
        ("nvidia.com/mig-1g.5gb: 1", True),
        ("nvidia.com/gpu: 4", False),
        ("nvidia.com/gpumem: 3000", False),
    ],
)
def test_a_number_beyond_the_gpus_of_a_pod(tmp_path: Path, limits: str, hidden: bool):
    (tmp_path / "pod.yaml").write_text(
        "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n    - name: t\n      image: vllm/vllm-openai:v0.11.0\n"
        f"      resources: {{limits: {{{limits}}}}}\n      env: [{{name: {CUDA}, value: '3'}}]\n"
    )
    found = [one for one in dockerfile_report(tmp_path / "pod.yaml")["findings"] if one["severity"] != "note"]
    assert [one["slug"] for one in found] == ["compose-hides-gpus"] * hidden


TORCH = "RUN pip install torch==2.8.0 --index-url https://download.pytorch.org/whl/cu128\n"
SLIM = "FROM python:3.12-slim\n" + TORCH
NOT_NAMED = {
    "nothing is set": ("build: ., runtime: nvidia", SLIM, "{NVIDIA_VISIBLE_DEVICES: all}", "not set"),
    "none": (
        "build: ., runtime: nvidia, environment: {NVIDIA_VISIBLE_DEVICES: none}",
        SLIM,
        "NVIDIA_VISIBLE_DEVICES: all",
        "none",
    ),
    "void over what the image sets": (
        f"{VLLM}, runtime: nvidia, environment: [NVIDIA_VISIBLE_DEVICES=void]",
        "",
        "- NVIDIA_VISIBLE_DEVICES=all",
        "void",
    ),
}
NAMED = {
    "an image for CUDA": (f"{VLLM}, runtime: nvidia", ""),
    "set by the image": ("build: ., runtime: nvidia", SLIM + "ENV NVIDIA_VISIBLE_DEVICES=all\n"),
    "set by the service": ("build: ., runtime: nvidia, environment: {NVIDIA_VISIBLE_DEVICES: 0}", SLIM),
    "by a variable": ("build: ., runtime: nvidia, environment: {NVIDIA_VISIBLE_DEVICES: '${GPUS}'}", SLIM),
    "by the shell": ("build: ., runtime: nvidia, environment: [NVIDIA_VISIBLE_DEVICES]", SLIM),
    "by the shell, in a mapping": ("build: ., runtime: nvidia, environment: {NVIDIA_VISIBLE_DEVICES: }", SLIM),
    "by a file that is not there": ("build: ., runtime: nvidia, env_file: gpu.env", SLIM),
    "a reservation, too": (f"build: ., runtime: nvidia, {reserved('count: all')}", SLIM),
    "CDI, which sets void": (
        f"{VLLM}, devices: ['nvidia.com/gpu=all'], environment: {{NVIDIA_VISIBLE_DEVICES: void}}",
        "",
    ),
    "an unknown image": ("build: ., runtime: nvidia", SLIM.replace("python:3.12-slim", "example.org/own:1")),
    "no torch": ("build: ., runtime: nvidia", "FROM python:3.12-slim\n"),
}


@pytest.mark.parametrize("name", NOT_NAMED)
def test_the_runtime_gives_no_gpu_that_no_variable_names(tmp_path: Path, name: str):
    service, image, line, value = NOT_NAMED[name]
    (found,) = told(tmp_path, service, image)
    assert (found["slug"], found["severity"]) == ("compose-no-device", "warning")
    assert line in fix(found, tmp_path)
    assert found["message"].endswith(f"NVIDIA_VISIBLE_DEVICES names, which is {value}.")


@pytest.mark.parametrize("name", NAMED)
def test_the_runtime_gives_what_a_variable_names(tmp_path: Path, name: str):
    assert told(tmp_path, *NAMED[name]) == []


@pytest.mark.parametrize(
    ("devices", "missing"),
    [
        ("[/dev/kfd, /dev/dri/card0]", True),
        ("[/dev/kfd, '/dev/dri/card1:/dev/dri/card1']", True),
        ("[/dev/kfd, /dev/dri]", False),
        ("[/dev/kfd, /dev/dri/card0, /dev/dri/renderD128]", False),
        ("[/dev/kfd, /dev/dri/by-path/pci-0000:03:00.0-render]", False),
        ("[/dev]", False),
    ],
)
def test_rocm_needs_a_render_node(tmp_path: Path, devices: str, missing: bool):
    found = told(tmp_path, f"{ROCM}, devices: {devices}")
    assert [(one["slug"], one["severity"]) for one in found] == [("compose-no-device", "error")] * missing
    assert not missing or "/dev/dri" in fix(found[0], tmp_path).split("\n")[1]


MISPLACED = {
    "gpus": "{gpus: all}",
    "the runtime": "{runtime: nvidia}",
    "devices among the limits": "{resources: {limits: {devices: [{driver: nvidia, count: 1, capabilities: [gpu]}]}}}",
    "devices of the resources": "{resources: {devices: [{driver: nvidia, count: 1, capabilities: [gpu]}]}}",
    "gpus of the reservations": "{resources: {reservations: {gpus: all}}}",
}


@pytest.mark.parametrize("name", MISPLACED)
def test_a_key_that_compose_does_not_know_there_is_told(tmp_path: Path, name: str):
    (found,) = told(tmp_path, f"{VLLM}, deploy: {MISPLACED[name]}")
    assert (found["slug"], found["severity"]) == ("compose-reservation-refused", "error")
    assert "leave out" in fix(found, tmp_path)
    assert "capabilities: [gpu]" in fix(found, tmp_path)


@pytest.mark.parametrize("key", ["limits", "reservations"])
def test_resources_that_stand_a_level_too_high_are_moved(tmp_path: Path, key: str):
    (found,) = told(tmp_path, f"{VLLM}, deploy: {{{key}: {{memory: 4G}}}}")
    assert (found["slug"], found["want"]) == ("compose-reservation-refused", "deploy.resources")
    assert fix(found, tmp_path).endswith(f"move {key} below deploy.resources")


def test_gpus_that_are_reserved_in_their_place_are_not_reserved_again(tmp_path: Path):
    reserved = "reservations: {devices: [{driver: nvidia, count: 1, capabilities: [gpu]}]}"
    (found,) = told(tmp_path, f"{VLLM}, deploy: {{resources: {{limits: {{devices: []}}, {reserved}}}}}")
    assert fix(found, tmp_path).endswith("leave out devices")


@pytest.mark.parametrize(
    "base",
    [
        "quay.io/fedora/fedora:44",
        "docker.io/opensuse/leap:15.6",
        "amazonlinux:2023",
        "registry.access.redhat.com/ubi9/ubi-minimal:9.8",
        "archlinux:base-devel",
    ],
)
def test_the_image_of_a_distribution_names_no_gpus(tmp_path: Path, base: str):
    image = SLIM.replace("python:3.12-slim", base)
    assert [one["slug"] for one in told(tmp_path, "build: ., runtime: nvidia", image)] == ["compose-no-device"]
    assert told(tmp_path, "build: ., gpus: all", image) == []


def test_an_image_of_pixi_for_cuda_is_given_a_gpu(tmp_path: Path):
    image = "FROM ghcr.io/prefix-dev/pixi:noble-cuda-12.9.1\n"
    assert [one["slug"] for one in told(tmp_path, "build: .", image)] == ["compose-no-device"]
    assert told(tmp_path, "build: .", image.replace("noble-cuda-12.9.1", "latest")) == []
