"""Definition files of Apptainer, and Kubernetes manifests."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from gpudoctor.dockerfile.recipe_files import read_recipe
from gpudoctor.host import InputError
from tests.support.check_cases import matrix
from tests.test_dockerfile import dockerfile_report, run

DEFINITION = """# a comment
Bootstrap: docker
From: {base}

%files
    requirements.txt /opt/requirements.txt

%environment
    export PATH=/opt/venv/bin:$PATH
    {environment}

%post -c /bin/bash
    apt-get update
    python3 -m venv /opt/venv
    . /opt/venv/bin/activate
    {command}

%runscript
    exec python3 "$@"
"""
POD = """apiVersion: v1
kind: Service
metadata: {name: serving}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: model}
spec:
  template:
    spec:
      containers:
        - name: model
          image: %s
          resources: {limits: {%s}}
          env:
            - name: %s
              value: "%s"
"""


def definition(tmp_path: Path, *options: str, base: str = "python:3.12-slim", environment: str = "",
               command: str = "pip install -r /opt/requirements.txt", file: str = "job.def") -> Any:  # fmt: skip
    (tmp_path / file).write_text(DEFINITION.format(base=base, environment=environment, command=command))
    return dockerfile_report(tmp_path / file, *options)


def pod(tmp_path: Path, *options: str, image: str, limit: str = "nvidia.com/gpu: 1", variable: str = "A=b") -> Any:
    (tmp_path / "pod.yaml").write_text(POD % (image, limit, *variable.split("=")))
    return dockerfile_report(tmp_path / "pod.yaml", *options)


def slugs(report: Any) -> list[str]:
    return [one["slug"] for one in report["findings"] if one["severity"] != "note"]


def fix(report: Any) -> str:
    return str(report["findings"][0]["fixes"][0]["steps"][0]["text"])


def test_a_definition_is_judged_and_its_lines_are_proposed(tmp_path: Path):
    command = "pip install torch==2.4.1"
    found = definition(tmp_path, "--gpu", "RTX 5090", "--driver", "570.133.07", command=command)
    assert slugs(found) == ["torch-no-arch-for-gpu"]
    text = fix(found)
    assert text.startswith("job.def:16: write:\n    pip install ") or "job.def:16" in text
    assert "RUN" not in text
    repaired = text.rpartition("\n")[2].rpartition(": ")[2].strip()
    again = definition(tmp_path, "--gpu", "RTX 5090", "--driver", "570.133.07", command=repaired)
    assert again["verdict"] == "ok"
    assert definition(tmp_path, "--gpu", "T4", "--driver", "535.183.01", command=command)["verdict"] == "ok"


def test_files_of_a_definition_are_read(tmp_path: Path):
    (tmp_path / "requirements.txt").write_text("torch==2.4.1\n")
    found = definition(tmp_path, "--gpu", "RTX 5090", "--driver", "570.133.07")
    assert slugs(found) == ["torch-no-arch-for-gpu"]
    assert "requirements.txt:1" in fix(found)


def test_the_base_of_a_definition_is_judged(tmp_path: Path):
    (tmp_path / "requirements.txt").write_text("numpy\n")
    found = definition(tmp_path, base="nvidia/cuda:11.0-devel-ubuntu20.04")
    assert slugs(found) == ["image-base-removed"]
    assert fix(found) == f"{tmp_path}/job.def:3: From: nvidia/cuda:11.0.3-devel-ubuntu20.04"
    image = "rocm/pytorch:rocm7.1_ubuntu22.04_py3.10_pytorch_release_2.8.0"
    found = definition(tmp_path, "--gpu", "RX 6600", base=image, command="echo")
    assert "export HSA_OVERRIDE_GFX_VERSION=10.3.0" in fix(found)
    wrong = definition(tmp_path, "--gpu", "MI300X", base=image, environment="export HSA_OVERRIDE_GFX_VERSION=10.3.0")
    assert slugs(wrong)[:1] == ["hsa-override-wrong"]


def test_the_environment_of_a_definition_is_not_there_when_it_is_built(tmp_path: Path):
    index = "export PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu"
    command = "pip install torch==2.9.1"
    found = definition(tmp_path, "--gpu", "RTX 5090", "--driver", "570.133.07", environment=index, command=command)
    assert found["verdict"] == "ok"


def test_stages_and_arguments_of_a_definition(tmp_path: Path):
    text = """Bootstrap: docker
From: python:3.12-slim
Stage: build

%post
    pip install torch==2.4.1

Bootstrap: docker
From: pytorch/pytorch:{{ TAG }}
Stage: final

%arguments
    TAG=2.4.1-cuda12.1-cudnn9-runtime

%files from build
    /opt/model /opt/model
"""
    (tmp_path / "Singularity").write_text(text)
    options = ("--gpu", "RTX 5090", "--driver", "570.133.07")
    assert slugs(dockerfile_report(tmp_path, *options)) == ["torch-no-arch-for-gpu"]
    other = ("--build-arg", "TAG=2.9.1-cuda12.8-cudnn9-runtime")
    assert dockerfile_report(tmp_path, *options, *other)["verdict"] == "ok"
    assert slugs(dockerfile_report(tmp_path, *options, *other, "--target", "build")) == ["torch-no-arch-for-gpu"]


def test_a_definition_on_an_image_of_its_own_is_unknown(tmp_path: Path):
    (tmp_path / "x.def").write_text("Bootstrap: localimage\nFrom: base.sif\n%post\n    echo hello\n")
    assert dockerfile_report(tmp_path / "x.def", "--gpu", "RTX 5090")["verdict"] == "unknown"


@pytest.mark.parametrize("line", ["From: " + " " * 300_000 + "x y", "%files " + " " * 300_000 + "x",
                                  "%environment\nexport A=b" + " " * 300_000 + "x", "%post\n" + "{{ A }} " * 10_000,
                                  "%files\n" + "a b\n" * 4_000])  # fmt: skip
def test_a_long_definition_is_read_in_time(tmp_path: Path, line: str):
    (tmp_path / "x.def").write_text(
        f"Bootstrap: docker\nFrom: python:3.12-slim\n%arguments\nA={'x' * 5000}\n{line}\n"
    )
    start = time.monotonic()
    read_recipe(str(tmp_path / "x.def"), matrix(), {}, "")
    assert time.monotonic() - start < 10


def test_the_image_of_a_manifest_is_judged(tmp_path: Path):
    options = ("--gpu", "RTX 5090", "--driver", "570.133.07")
    found = pod(tmp_path, *options, image="vllm/vllm-openai:v0.8.5")
    assert slugs(found) == ["torch-no-arch-for-gpu"]
    assert fix(found) == f"{tmp_path}/pod.yaml:12: image: an image with torch 2.7.0+cu128"
    assert pod(tmp_path, *options, image="vllm/vllm-openai:v0.10.2")["verdict"] == "ok"


def test_the_gpus_of_a_container_of_a_manifest(tmp_path: Path):
    found = pod(tmp_path, "--gpu", "T4", image="vllm/vllm-openai:v0.8.5", limit="cpu: 1")
    assert [(one["slug"], one["severity"]) for one in found["findings"]] == [("compose-no-device", "warning")]
    assert fix(found).endswith("add to resources.limits of model, inside the brackets:\n    nvidia.com/gpu: 1")
    assert slugs(pod(tmp_path, image="rocm/pytorch:latest", limit="amd.com/gpu: 1")) == []
    assert slugs(pod(tmp_path, image="rocm/pytorch:latest", limit="nvidia.com/gpu: 1")) == ["compose-other-vendor"]
    shared = pod(tmp_path, image="vllm/vllm-openai:v0.8.5", limit="volcano.sh/vgpu-number: 1")
    assert (shared["findings"], len(shared["not_judged"])) == ([], 1)


def test_the_variables_of_a_container_of_a_manifest(tmp_path: Path):
    found = pod(tmp_path, image="rocm/pytorch:latest", limit="amd.com/gpu: 1", variable="HIP_VISIBLE_DEVICES=all")
    assert slugs(found) == ["compose-hides-gpus"]
    assert '- {name: HIP_VISIBLE_DEVICES, value: "0"}' in fix(found)
    image, variable = "rocm/pytorch:rocm6.3-py3.10-pytorch2.4.0", "HSA_OVERRIDE_GFX_VERSION=11.0.0"
    found = pod(tmp_path, "--gpu", "RX 6600", image=image, limit="amd.com/gpu: 1", variable=variable)
    assert slugs(found) == ["hsa-override-wrong"]
    assert '- {name: HSA_OVERRIDE_GFX_VERSION, value: "10.3.0"} in the environment of model' in fix(found)


@pytest.mark.parametrize(
    ("value", "limit", "hidden"),
    [("", "nvidia.com/gpu: 1", True), ("void", "nvidia.com/gpu: 1", True), ("void", "cpu: 1", False),
     ("all", "nvidia.com/gpu: 1", False)],
)  # fmt: skip
def test_a_container_that_hides_the_gpus_it_asks_for(tmp_path: Path, value: str, limit: str, hidden: bool):
    found = pod(tmp_path, image="acme/train:1", limit=limit, variable=f"NVIDIA_VISIBLE_DEVICES={value}")
    assert slugs(found) == ["compose-hides-gpus"] * hidden
    assert not hidden or "numbers" not in fix(found)


def test_a_line_of_a_manifest_that_is_not_yaml_is_named(tmp_path: Path):
    (tmp_path / "pod.yaml").write_text((POD % ("a", "b: 1", "C", "d")) + "---\napiVersion: v1\nkind: 'a' b\n")
    with pytest.raises(InputError, match="line 20"):
        read_recipe(str(tmp_path / "pod.yaml"), matrix(), {}, "")


MOUNTING = """apiVersion: v1
kind: Pod
metadata: {name: serve}
spec:
  securityContext: %s
  containers:
    - name: serve
      image: ollama/ollama:rocm
      securityContext: {privileged: %s}
      volumeMounts: [{name: kfd, mountPath: /dev/kfd}, {name: dri, mountPath: /dev/dri}]
  volumes:
    - {name: kfd, hostPath: {path: /dev/kfd}}
    - {name: dri, hostPath: {path: /dev/dri}}
"""


@pytest.mark.parametrize(
    ("pod_security", "privileged", "expected"),
    [
        ("{}", "false", ["compose-no-device"]),
        ("{runAsUser: 1000, supplementalGroups: [109]}", "false", ["compose-no-device"]),
        ("{}", "true", []),
        ("{runAsUser: 1000}", "true", ["compose-device-access"]),
        ("{runAsUser: 1000, supplementalGroups: [44, 109]}", "true", []),
        ("{runAsUser: 1000, runAsGroup: 109}", "true", []),
    ],
)
def test_nodes_of_the_host_are_open_to_a_privileged_container_alone(
    tmp_path: Path, pod_security: str, privileged: str, expected: list[str]
):
    (tmp_path / "pod.yaml").write_text(MOUNTING % (pod_security, privileged))
    report = dockerfile_report(tmp_path / "pod.yaml")
    assert slugs(report) == expected
    if expected == ["compose-no-device"]:
        assert "amd.com/gpu: 1" in str(report["findings"][0]["fixes"][0])


@pytest.mark.parametrize(
    ("resources", "fault"),
    [
        ("{requests: {nvidia.com/gpu: 1}}", True),
        ("{requests: {amd.com/gpu: 1}, limits: {memory: 8Gi}}", True),
        ("{limits: {nvidia.com/gpu: 0.5}}", True),
        ("{requests: {nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 2}}", True),
        ("{limits: {nvidia.com/gpu: 1}}", False),
        ('{requests: {nvidia.com/gpu: "2"}, limits: {nvidia.com/gpu: 2}}', False),
        ("{limits: {nvidia.com/mig-1g.5gb: 1}, requests: {cpu: 500m}}", False),
        ("{requests: {nvidia.com/gpu: 0}}", False),
        ("{requests: {nvidia.com/gpu: 0}, limits: {nvidia.com/gpu: 1}}", True),
        ("{limits: {nvidia.com/gpu: 500m}}", True),
        ("{limits: {nvidia.com/gpu: 1000m}}", False),
        ("{limits: {nvidia.com/gpumem: 3k}}", False),
        ("{limits: {nvidia.com/gpu: 2.0}, requests: {nvidia.com/gpu: 2}}", False),
        ('{limits: {nvidia.com/gpu: "{{ .Values.gpus }}"}}', False),
        ("{limits: {nvidia.com/gpu: $GPUS}}", False),
        ("{limits: {nvidia.com/gpu: 9999999999999999999E}}", False),
        ('{limits: {nvidia.com/gpu: "1e99"}}', False),
    ],
)
def test_a_cluster_refuses_gpus_without_limits(tmp_path: Path, resources: str, fault: bool):
    text = POD % ("pytorch/pytorch:latest", "nvidia.com/gpu: 1", "A", "b")
    (tmp_path / "pod.yaml").write_text(text.replace("{limits: {nvidia.com/gpu: 1}}", resources))
    found = slugs(dockerfile_report(tmp_path / "pod.yaml"))
    assert ("manifest-gpu-request" in found) is fault


@pytest.mark.parametrize(
    ("image", "fault"),
    [
        ("ghcr.io/huggingface/text-generation-inference:3.3.4", True),
        ("ghcr.io/huggingface/text-generation-inference:3.3.4-intel-xpu", False),
        ("ghcr.io/huggingface/text-embeddings-inference:89-1.8", True),
        ("ghcr.io/huggingface/text-embeddings-inference:cpu-1.8", False),
        ("lmsysorg/sglang:v0.5.3-cu129", True),
        ("lmsysorg/sglang:v0.5.3-xeon", False),
        ("ghcr.io/open-webui/open-webui:cuda", True),
        ("ghcr.io/open-webui/open-webui:main", False),
        ("nvcr.io/nvidia/tritonserver:25.04-py3", False),  # it is also made for CPUs
    ],
)
def test_a_server_made_for_gpus_is_not_started_without_one(tmp_path: Path, image: str, fault: bool) -> None:
    (tmp_path / "compose.yaml").write_text(f"services:\n  a:\n    image: {image}\n")
    assert ("compose-no-device" in slugs(dockerfile_report(tmp_path / "compose.yaml"))) is fault
    of_amd = f"services:\n  a:\n    image: {image}\n    devices: [/dev/kfd, /dev/dri]\n"
    (tmp_path / "compose.yaml").write_text(of_amd)
    other = "compose-other-vendor" in slugs(dockerfile_report(tmp_path / "compose.yaml"))
    assert other is (fault or "triton" in image)


@pytest.mark.parametrize(
    ("resources", "lines"),
    [
        (
            "{requests: {amd.com/gpu: 1}, limits: {memory: 8Gi}}",
            (
                "9: leave out amd.com/gpu, below requests",
                "9: add to resources.limits of a, inside the brackets:",
                "1",
            ),
        ),
        (
            "\n      requests:\n        amd.com/gpu: 1\n      limits:\n        memory: 8Gi",
            ("11: leave out amd.com/gpu, below requests", "12: add to resources.limits of a:", "1"),
        ),
        (
            "\n      requests:\n        amd.com/gpu: 1",
            (
                "11: leave out amd.com/gpu, below requests",
                "9: add to resources of a:",
                "    limits: {amd.com/gpu: 1}",
            ),
        ),
        ("\n      limits:\n        amd.com/gpu: 500m", ("11: amd.com/gpu: 1",)),
        (
            "\n      requests:\n        amd.com/gpu: 1\n      limits:\n        amd.com/gpu: 2",
            ("11: leave out amd.com/gpu, below requests", "13: amd.com/gpu: 2"),
        ),
    ],
)
def test_the_limits_of_gpus_are_added_to_the_limits_that_are_there(
    tmp_path: Path, resources: str, lines: tuple[str, ...]
):
    """A second `limits` beside the first one would break the manifest."""
    head = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\nspec:\n  containers:\n  - name: a\n"
    (tmp_path / "pod.yaml").write_text(f"{head}    image: rocm/pytorch:latest\n    resources: {resources}\n")
    (finding,) = [one for one in dockerfile_report(tmp_path / "pod.yaml")["findings"] if one["id"] == "GPD631"]
    written = finding["fixes"][0]["steps"][0]["text"].split("\n")
    assert len(written) == len(lines)
    assert all(
        one.endswith(f"pod.yaml:{line}") or one.endswith(line) for one, line in zip(written, lines, strict=True)
    )


def test_a_container_of_a_manifest_is_called_a_container(tmp_path: Path):
    (tmp_path / "pod.yaml").write_text(POD % ("rocm/pytorch:latest", "cpu: 1", "A", "b"))
    finding = dockerfile_report(tmp_path / "pod.yaml")["findings"][0]
    assert finding["subject"].startswith("container ")
    assert "service" not in str(finding).lower()


@pytest.mark.parametrize("kind", ["CronJob", "StatefulSet"])
def test_manifests_of_a_folder_are_read_beside_its_dockerfile(tmp_path: Path, kind: str):
    (tmp_path / "Dockerfile").write_text("FROM rocm/pytorch:latest\n")
    text = (POD % ("rocm/pytorch:latest", "cpu: 1", "A", "b")).replace("Deployment", kind)
    (tmp_path / "pod.yml").write_text(text)
    (tmp_path / "chart.yaml").write_text("apiVersion: v1\nkind: Pod\nspec: {{ .Values.spec }}\n")
    (tmp_path / "values.yaml").write_text("image: [\n")
    report = dockerfile_report(tmp_path)
    assert [one["subject"] for one in report["findings"] if one["slug"] == "compose-no-device"] == ["container model"]


def test_a_variable_that_the_runtime_follows_leaves_open_whether_there_is_a_gpu(tmp_path: Path):
    given = pod(tmp_path, image="pytorch/pytorch:latest", limit="cpu: 1", variable="NVIDIA_VISIBLE_DEVICES=all")
    assert slugs(given) == []


def test_a_user_whom_a_device_plugin_may_leave_out_is_a_note(tmp_path: Path):
    text = (POD % ("rocm/pytorch:latest", "amd.com/gpu: 1", "A", "b")).replace(
        "    spec:\n", "    spec:\n      securityContext: {runAsUser: 1000}\n"
    )
    (tmp_path / "pod.yaml").write_text(text)
    findings = json.loads(run(str(tmp_path / "pod.yaml"), "--format", "json")[1])["findings"]
    (found,) = (one for one in findings if one["slug"] == "compose-device-access")
    assert found["severity"] == "note"
    assert "supplementalGroups" in str(found["fixes"][0])
