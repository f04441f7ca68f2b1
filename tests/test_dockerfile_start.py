"""What a container starts: the preflight in front of it, and the Python behind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.test_dockerfile import dockerfile_report, findings, lines, of_compose

BASE = "FROM python:3.12-slim\nRUN pip install gpudoctor-cli\nWORKDIR /app\nCOPY app.py entry.sh ./\n"
PREFLIGHT = 'ENTRYPOINT ["gpudoctor", "preflight", "--"]\n'
START = 'CMD ["python", "app.py"]\n'
GPUS = "    deploy: {resources: {reservations: {devices: [{driver: nvidia, count: all, capabilities: [gpu]}]}}}\n"


def problems(text: str, slug: str) -> list[tuple[str, str]]:
    return [(one.severity, lines(one)) for one in findings(text) if one.slug == slug]


WITHOUT = {
    "shell form and CMD": ('ENTRYPOINT gpudoctor preflight --\nCMD ["python", "app.py"]', "error"),
    "with options": ('ENTRYPOINT gpudoctor preflight --require "gpu>=1" --\nCMD python app.py', "error"),
    "exec": ('ENTRYPOINT exec gpudoctor preflight --\nCMD ["python", "app.py"]', "error"),
    "without the two lines": ('ENTRYPOINT gpudoctor preflight -q\nCMD ["python", "app.py"]', "error"),
    "CMD before": ('CMD ["python", "app.py"]\nENTRYPOINT gpudoctor preflight --', "error"),
    "as a module": ('ENTRYPOINT python -m gpudoctor preflight --\nCMD ["python", "app.py"]', "error"),
    "its arguments": ('ENTRYPOINT gpudoctor preflight -- python app.py\nCMD ["--epochs", "1"]', "warning"),
}
WITH = {
    "exec form": PREFLIGHT + 'CMD ["python", "app.py"]',
    "CMD in shell form": PREFLIGHT + "CMD python app.py",
    "CMD when it starts": PREFLIGHT,
    "the command in it": "ENTRYPOINT gpudoctor preflight -- python app.py",
    "words passed on": 'ENTRYPOINT ["sh", "-c", "gpudoctor preflight -- \\"$@\\"", "sh"]\nCMD ["python", "app.py"]',
    "a check alone": "ENTRYPOINT gpudoctor preflight",
    "a script": 'ENTRYPOINT ["/app/entry.sh"]\nCMD ["python", "app.py"]',
    "another ENTRYPOINT in shell form": 'ENTRYPOINT python app.py\nCMD ["--epochs", "1"]',
}


@pytest.mark.parametrize("name", WITHOUT)
def test_a_preflight_without_its_command_is_reported(name: str):
    text, severity = WITHOUT[name]
    (found,) = problems(BASE + text, "image-preflight-without-command")
    assert found[0] == severity
    assert "ENTRYPOINT [" in found[1]


@pytest.mark.parametrize("name", WITH)
def test_a_preflight_with_its_command_is_fine(name: str):
    assert problems(BASE + WITH[name], "image-preflight-without-command") == []


def test_the_exec_form_keeps_the_options():
    text = BASE + 'ENTRYPOINT gpudoctor preflight --require "gpu>=1" --\nCMD ["python", "app.py"]'
    ((_, fix),) = problems(text, "image-preflight-without-command")
    assert fix == 'Dockerfile:5: ENTRYPOINT ["gpudoctor", "preflight", "--require", "gpu>=1", "--"]'


def composed(tmp_path: Path, service: str, image: str = PREFLIGHT + 'CMD ["python", "app.py"]') -> Any:
    (tmp_path / "app.py").write_text("import torch\n")
    (tmp_path / "entry.sh").write_text('#!/bin/sh\nset -e\nexec gpudoctor preflight -- "$@"\n')
    (tmp_path / "Dockerfile").write_text(BASE.replace("python:3.12-slim", "pytorch/pytorch:latest") + image)
    (tmp_path / "compose.yaml").write_text(f"services:\n  train:\n    build: .\n    shm_size: 1gb\n{service}")
    report = dockerfile_report(tmp_path / "compose.yaml")
    return {one["slug"]: one["fixes"][0]["steps"][0]["text"] for one in report["findings"]}


DROPPING = {
    "a list": "    entrypoint: [python, app.py]\n",
    "a text": "    entrypoint: python app.py\n",
    "a shell": '    entrypoint: ["/bin/sh", "-c"]\n    command: ["python app.py"]\n',
}


@pytest.mark.parametrize("name", DROPPING)
def test_a_service_that_replaces_the_preflight_is_warned_about(tmp_path: Path, name: str):
    found = composed(tmp_path, DROPPING[name] + GPUS)
    assert list(found) == ["compose-drops-preflight"]
    assert "command: [" in found["compose-drops-preflight"]


def test_so_it_is_where_a_script_runs_the_preflight(tmp_path: Path):
    image = 'ENTRYPOINT ["/app/entry.sh"]\nCMD ["python", "app.py"]'
    assert list(composed(tmp_path, DROPPING["a list"] + GPUS, image)) == ["compose-drops-preflight"]


KEEPING = {
    "command alone": "    command: [python, app.py, --epochs, '1']\n" + GPUS,
    "its own preflight": "    entrypoint: [gpudoctor, preflight, -q, --]\n    command: [python, app.py]\n" + GPUS,
    "nothing": GPUS,
}


@pytest.mark.parametrize("name", KEEPING)
def test_a_service_that_keeps_the_preflight_is_fine(tmp_path: Path, name: str):
    assert composed(tmp_path, KEEPING[name]) == {}


def test_an_entrypoint_of_a_service_drops_cmd_for_the_preflight(tmp_path: Path):
    found = composed(tmp_path, "    entrypoint: [gpudoctor, preflight, --]\n" + GPUS)
    assert list(found) == ["image-preflight-without-command"]
    assert json.dumps(["python", "app.py"]) in found["image-preflight-without-command"]


def test_a_service_that_passes_over_the_script_that_activates_is_reported_at_its_own_place(tmp_path: Path):
    (tmp_path / "start.sh").write_text('#!/bin/sh\n. /opt/venv/bin/activate\nexec "$@"\n')
    (tmp_path / "Dockerfile").write_text(
        "FROM python:3.12-slim\nRUN python -m venv /opt/venv && /opt/venv/bin/pip install torch\nCOPY start.sh /\n"
        'ENTRYPOINT ["/start.sh"]\nCMD ["python", "app.py"]\n'
    )
    service = "{build: ., gpus: all, entrypoint: [python, app.py]}"
    (found,) = of_compose(tmp_path, f"services:\n  a: {service}\n  b: {{build: ., gpus: all}}\n")
    assert (found["slug"], found["subject"]) == ("image-environment-off-path", "service a")
    assert "compose.yaml:2: /opt/venv/bin/python in place of python" in str(found["fixes"][1])


def test_one_image_of_two_services_is_reported_once(tmp_path: Path):
    (tmp_path / "Dockerfile").write_text(BASE + 'ENTRYPOINT gpudoctor preflight --\nCMD ["python", "app.py"]\n')
    found = of_compose(tmp_path, "services:\n  a: {build: .}\n  b: {build: .}\n")
    assert [one["slug"] for one in found] == ["image-preflight-without-command"]


TORCH = "FROM pytorch/pytorch:2.9.1-cuda12.8-cudnn9-devel\nCOPY start.sh gpu.sh /\n"
SCRIPT = TORCH + 'ENTRYPOINT ["/start.sh"]\n'
HIDING = {
    "by export": (SCRIPT, "#!/bin/bash\nset -e\nexport CUDA_VISIBLE_DEVICES=all\nexec python app.py\n", "start.sh:3"),
    "beside others": (SCRIPT, "export A=1 CUDA_VISIBLE_DEVICES=all B=2\npython app.py --listen\n", "start.sh:1"),
    "for the program alone": (SCRIPT, "cd /app\nCUDA_VISIBLE_DEVICES=all exec python app.py\n", "start.sh:2"),
    "by default": (SCRIPT, 'export CUDA_VISIBLE_DEVICES="${GPUS:-all}"\nexec "$@"\n', "start.sh:1"),
    "exported later": (SCRIPT, "CUDA_VISIBLE_DEVICES=all\nexport CUDA_VISIBLE_DEVICES\npython a.py\n", "start.sh:1"),
    "a script of CMD": (TORCH + "CMD bash /start.sh\n", "export CUDA_VISIBLE_DEVICES=all\npython a\n", "start.sh:1"),
    "CMD itself": (TORCH + "CMD CUDA_VISIBLE_DEVICES=all python app.py\n", "", "Dockerfile:3"),
    "over ENV": (SCRIPT + "ENV CUDA_VISIBLE_DEVICES=0\n", "export CUDA_VISIBLE_DEVICES=all\nrun", "start.sh:1"),
}  # fmt: skip
SHOWING = {
    "a number": "export CUDA_VISIBLE_DEVICES=${GPU:-0}\npython app.py\n",
    "under a condition": 'if [ "$ALL" ]; then\nexport CUDA_VISIBLE_DEVICES=all\nfi\npython app.py\n',
    "the same, in one line": '[ -n "$ALL" ] && export CUDA_VISIBLE_DEVICES=all\npython app.py\n',
    "for another command": "CUDA_VISIBLE_DEVICES=all python check.py\npython app.py\n",
    "for the shell alone": "CUDA_VISIBLE_DEVICES=all\npython app.py\n",
    "set anew": "export CUDA_VISIBLE_DEVICES=all\nexport CUDA_VISIBLE_DEVICES=0\npython app.py\n",
    "taken back": "export CUDA_VISIBLE_DEVICES=all\nunset CUDA_VISIBLE_DEVICES\npython app.py\n",
    "in a function": "all() {\nexport CUDA_VISIBLE_DEVICES=all\n}\npython app.py\n",
}


@pytest.mark.parametrize("name", HIDING)
def test_a_variable_that_a_start_script_exports_is_judged_at_its_place(name: str):
    text, script, place = HIDING[name]
    (found,) = [one for one in findings(text, {"start.sh": script}) if one.slug == "image-hides-gpus"]
    assert (found.subject, lines(found)) == (place, f"{place}: remove this variable.")


@pytest.mark.parametrize("name", SHOWING)
def test_a_variable_that_a_start_script_may_not_export_is_silent(name: str):
    assert findings(SCRIPT, {"start.sh": SHOWING[name]}) == []


def test_a_stub_that_a_start_script_puts_on_the_load_path():
    script = "export LD_LIBRARY_PATH=/usr/local/cuda/lib64/stubs:$LD_LIBRARY_PATH\nexec python app.py\n"
    (found,) = findings(SCRIPT, {"start.sh": script})
    assert (found.slug, found.subject) == ("image-stub-libcuda", "start.sh:1")
    assert "export LIBRARY_PATH=/usr/local/cuda/lib64/stubs, and LD_LIBRARY_PATH without it" in lines(found)


def test_an_override_that_a_start_script_exports_is_judged_on_the_described_gpu(tmp_path: Path):
    (tmp_path / "start.sh").write_text("export HSA_OVERRIDE_GFX_VERSION=10.3.0\nexec python app.py\n")
    (tmp_path / "Dockerfile").write_text(
        "FROM rocm/pytorch:rocm6.4_ubuntu24.04_py3.12_pytorch_release_2.6.0\nCOPY start.sh /\nCMD /start.sh\n"
    )
    (found,) = dockerfile_report(tmp_path / "Dockerfile", "--gpu", "RX 7900 XTX")["findings"]
    assert found["slug"] == "hsa-override-wrong"
    assert found["fixes"][0]["steps"][0]["text"] == "start.sh:1: leave out HSA_OVERRIDE_GFX_VERSION"


@pytest.mark.parametrize("place", ["Dockerfile:3", "start.sh:1"])
def test_another_torch_goes_to_its_own_line_and_not_to_that_of_the_variable(tmp_path: Path, place: str):
    variable = "HSA_OVERRIDE_GFX_VERSION=9.0.0"
    (tmp_path / "start.sh").write_text((f"export {variable}\n" if "start" in place else "") + "exec python app.py\n")
    (tmp_path / "Dockerfile").write_text(
        "FROM python:3.12\n"
        "RUN pip install torch==2.9.1 --index-url https://download.pytorch.org/whl/rocm6.4\n"
        + (f"ENV {variable}\n" if "Dockerfile" in place else "")
        + "COPY start.sh /\nCMD /start.sh\n"
    )
    (found,) = dockerfile_report(tmp_path / "Dockerfile", "--gpu", "RX 6500 XT")["findings"]
    assert found["slug"] == "hsa-override-wrong"
    text = "\n".join(step["text"] for step in found["fixes"][0]["steps"])
    assert "Dockerfile:2: RUN pip install" in text
    assert f"{place}: leave out HSA_OVERRIDE_GFX_VERSION" in text


def test_a_service_that_replaces_the_start_script_does_not_see_what_it_exports(tmp_path: Path):
    (tmp_path / "start.sh").write_text("export CUDA_VISIBLE_DEVICES=all\nexec python app.py\n")
    (tmp_path / "Dockerfile").write_text(SCRIPT.replace(" gpu.sh", ""))
    (tmp_path / "compose.yaml").write_text(
        "services:\n  a: {build: ., gpus: all, ipc: host, entrypoint: [python, app.py]}\n"
    )
    assert dockerfile_report(tmp_path / "compose.yaml")["findings"] == []


REQUIRING = 'ENTRYPOINT ["gpudoctor", "preflight", "--require", "gpu>=2", "--"]\nCMD ["python", "app.py"]\n'
ENTRY = 'ENTRYPOINT ["/entry.sh"]\nCMD ["python", "app.py"]\n'
REFUSED = {
    "no GPU": (REQUIRING, "{}", "warning", "count: all"),
    "behind tini": (REQUIRING.replace('["gpu', '["tini", "--", "gpu'), "{}", "warning", "count: all"),
    "too few": (REQUIRING, "{gpus: [{count: 1}]}", "error", "count: 2"),
    "too few by their ids": (REQUIRING, "{gpus: [{device_ids: ['0']}]}", "error", ":4: 2 GPUs in device_ids"),
    "by its own entrypoint": ("", "{entrypoint: [gpudoctor, preflight, --require, gpu.memory>=8GiB, --, python, a]}",
                              "warning", "count: all"),
    "by its command": ("", "{command: gpudoctor preflight --require any(sm>=8.0) -- python a.py}", "warning", "all"),
    "by a variable": (PREFLIGHT + START, "{environment: {GPUDOCTOR_REQUIRE: 'torch>=2;gpu>=1'}}", "warning", "all"),
    "by ENV": (PREFLIGHT + START + "ENV GPUDOCTOR_REQUIRE=torch.cuda,gpu==1\n", "{}", "warning", "count: all"),
    "in a script": (ENTRY, "{}", "warning", "count: all"),
}  # fmt: skip
PASSED = {
    "all": (REQUIRING, "{gpus: all}"),
    "all by their count": (REQUIRING, "{gpus: [{count: -1}]}"),
    "all by CDI": (REQUIRING, "{gpus: [{driver: cdi, device_ids: [nvidia.com/gpu=all]}]}"),
    "enough": (REQUIRING, "{gpus: [{count: 2}]}"),
    "privileged": (REQUIRING, "{privileged: true}"),
    "the runtime": (REQUIRING, "{runtime: nvidia}"),
    "no GPU required": (PREFLIGHT + START, "{environment: [GPUDOCTOR_REQUIRE=torch>=2.6]}"),
    "what may be missing": (REQUIRING.replace('"--"]', '"--fail-on", "never", "--"]'), "{}"),
    "what is ignored": (REQUIRING.replace('"--"]', '"--ignore", "GPD910", "--"]'), "{}"),
    "skipped": (REQUIRING, "{environment: {GPUDOCTOR_SKIP: 1}}"),
    "another program": (REQUIRING, "{entrypoint: [python, migrate.py]}"),
    "a service that is not started": (REQUIRING, "{scale: 0}"),
    "what depends on a variable": (REQUIRING.replace("gpu>=2", "gpu>=$N"), "{}"),
}


def composed_on_slim(tmp_path: Path, image: str, service: str) -> list[Any]:
    (tmp_path / "entry.sh").write_text('set -e\nexec gpudoctor preflight --require "gpu>=1" -- "$@"\n')
    (tmp_path / "Dockerfile").write_text(BASE + "RUN pip install torch\n" + image.replace("/entry", "/app/entry"))
    return of_compose(tmp_path, f"services:\n  serve:\n    build: .\n    <<: {service}\n")


@pytest.mark.parametrize("name", REFUSED)
def test_a_service_without_the_gpus_that_its_preflight_requires_is_told(tmp_path: Path, name: str):
    image, service, severity, fix = REFUSED[name]
    (found,) = composed_on_slim(tmp_path, image, service)
    assert (found["slug"], found["severity"]) == ("compose-no-device", severity)
    assert fix in found["fixes"][0]["steps"][0]["text"]


@pytest.mark.parametrize("name", PASSED)
def test_a_service_whose_preflight_may_pass_is_silent(tmp_path: Path, name: str):
    assert composed_on_slim(tmp_path, *PASSED[name]) == []


@pytest.mark.parametrize(("gpus", "told"), [(1, True), (2, False), (4, False)])
def test_a_container_of_a_manifest_with_too_few_gpus_for_its_preflight(tmp_path: Path, gpus: int, told: bool):
    (tmp_path / "pod.yaml").write_text(
        "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n    - name: t\n      image: example.org/own:1\n"
        f"      resources: {{limits: {{nvidia.com/gpu: {gpus}}}}}\n"
        '      command: [gpudoctor, preflight, --require, "gpu>=2", --, torchrun, train.py]\n'
    )
    found = dockerfile_report(tmp_path / "pod.yaml")["findings"]
    assert [one["slug"] for one in found] == ["compose-no-device"] * told
    assert "nvidia.com/gpu: 2" in str(found) or not told


ENV_FILES = {
    "one": ("gpu.env", "CUDA_VISIBLE_DEVICES=all\n", True),
    "a list": ("[a.env, gpu.env]", "# all\nCUDA_VISIBLE_DEVICES=all\n", True),
    "by its path": ("[{path: ./gpu.env, required: false}]", 'export CUDA_VISIBLE_DEVICES="all"\n', True),
    "a number": ("gpu.env", "CUDA_VISIBLE_DEVICES=0\n", False),
    "quotes, which compose takes away": ("gpu.env", 'CUDA_VISIBLE_DEVICES="0"\n', False),
    "a comment behind it": ("gpu.env", 'CUDA_VISIBLE_DEVICES="all" # of them\n', True),
    "a file that is not there": ("other.env", "CUDA_VISIBLE_DEVICES=all\n", False),
    "the service's own value": ("gpu.env, environment: {CUDA_VISIBLE_DEVICES: 1}", "CUDA_VISIBLE_DEVICES=all", False),
}


@pytest.mark.parametrize("name", ENV_FILES)
def test_the_variables_of_an_env_file_count(tmp_path: Path, name: str):
    files, text, hides = ENV_FILES[name]
    (tmp_path / "gpu.env").write_text(text)
    service = f"{{image: vllm/vllm-openai:v0.11.0, gpus: all, ipc: host, env_file: {files}}}"
    found = of_compose(tmp_path, f"services:\n  serve: {service}\n")
    assert [one["slug"] for one in found] == ["compose-hides-gpus"] * hides
    at = f"gpu.env:{text.count(chr(10))}: leave out CUDA_VISIBLE_DEVICES"
    assert not hides or at in found[0]["fixes"][0]["steps"][0]["text"]


WITH_OVERRIDE = {
    "a variable that hides the GPUs": ("override", "environment: {CUDA_VISIBLE_DEVICES: all}", "gpus: all", True),
    "a list": ("override", "environment: [CUDA_VISIBLE_DEVICES=all]", "gpus: all", True),
    "in place of the service's own": (
        "override",
        "environment: {CUDA_VISIBLE_DEVICES: 0}",
        "gpus: all, environment: {CUDA_VISIBLE_DEVICES: all}",
        False,
    ),
    "a file that is added on request": ("test", "environment: {CUDA_VISIBLE_DEVICES: all}", "gpus: all", False),
    "a number": ("override", "environment: {CUDA_VISIBLE_DEVICES: 1}", "gpus: all", False),
}


@pytest.mark.parametrize("name", WITH_OVERRIDE)
def test_the_variables_of_an_override_count(tmp_path: Path, name: str):
    file, text, given, hides = WITH_OVERRIDE[name]
    (tmp_path / "compose.yaml").write_text(
        f"services:\n  serve: {{image: vllm/vllm-openai:v0.11.0, ipc: host, {given}}}\n"
    )
    (tmp_path / f"compose.{file}.yml").write_text(f"services:\n  serve:\n    {text}\n")
    found = dockerfile_report(tmp_path / "compose.yaml")["findings"]
    assert [one["slug"] for one in found] == ["compose-hides-gpus"] * hides
    assert not hides or "compose.override.yml:3: leave out CUDA" in found[0]["fixes"][0]["steps"][0]["text"]


@pytest.mark.parametrize(
    ("file", "text", "told"),
    [
        ("compose.override.yaml", "environment: {NVIDIA_VISIBLE_DEVICES: all}", False),
        ("compose.gpu.yaml", "environment: [NVIDIA_VISIBLE_DEVICES=0]", False),
        ("compose.gpu.yaml", "env_file: gpu.env", False),
        ("compose.override.yaml", "environment: {OTHER: all}", True),
        ("notes.yaml", "environment: {NVIDIA_VISIBLE_DEVICES: all}", True),
    ],
)
def test_the_gpus_that_a_runtime_gives_may_stand_in_another_compose_file(
    tmp_path: Path, file: str, text: str, told: bool
):
    (tmp_path / "Dockerfile").write_text(
        BASE + "RUN pip install torch --index-url https://download.pytorch.org/whl/cu128\n"
    )
    (tmp_path / "compose.yaml").write_text("services:\n  serve: {build: ., ipc: host, runtime: nvidia}\n")
    (tmp_path / file).write_text(f"services:\n  serve:\n    {text}\n")
    found = dockerfile_report(tmp_path / "compose.yaml")["findings"]
    assert [one["slug"] for one in found if one["severity"] != "note"] == ["compose-no-device"] * told


REFUSED_BY_COMPOSE = {
    "without capabilities": ("{driver: nvidia, count: 1}", True),
    "without anything": ("{count: all}", True),
    "both": ("{count: 1, device_ids: ['0'], capabilities: [gpu]}", True),
    "by CDI": ("{driver: cdi, device_ids: [nvidia.com/gpu=all]}", False),
    "a driver that no engine has": ("{driver: rocm, count: all, capabilities: [gpu, video]}", True),
    "a capability of no driver": ("{driver: amd, count: all, capabilities: [gpu, compute]}", True),
    "AMD's driver": ("{driver: amd, count: all, capabilities: [gpu]}", False),
    "a driver of CDI": ("{driver: nvidia.cdi, count: all, capabilities: [gpu]}", False),
    "a driver by variable": ("{driver: '${DRIVER:-nvidia}', count: all, capabilities: [gpu]}", False),
    "by ids": ("{device_ids: ['0'], capabilities: [gpu]}", False),
    "all": ("{driver: nvidia, count: all, capabilities: [gpu]}", False),
}


@pytest.mark.parametrize("name", REFUSED_BY_COMPOSE)
def test_a_reservation_that_compose_refuses(tmp_path: Path, name: str):
    device, refused = REFUSED_BY_COMPOSE[name]
    reserved = f"deploy: {{resources: {{reservations: {{devices: [{device}]}}}}}}"
    service = f"{{image: vllm/vllm-openai:v0.11.0, ipc: host, {reserved}}}"
    found = of_compose(tmp_path, f"services:\n  serve: {service}\n")
    assert ("compose-reservation-refused" in [one["slug"] for one in found]) == refused


LIBRARIES = {
    "utility alone": ("[gpu, utility]", "", True),
    "video, whatever the variable says": ("[gpu, video]", "NVIDIA_DRIVER_CAPABILITIES: all", True),
    "the variable alone": ("[gpu]", "NVIDIA_DRIVER_CAPABILITIES: 'video,utility'", True),
    "compute beside utility": ("[gpu, compute, utility]", "", False),
    "only gpu": ("[gpu]", "", False),
    "all, by the variable": ("[gpu]", "NVIDIA_DRIVER_CAPABILITIES: all", False),
}


@pytest.mark.parametrize("name", LIBRARIES)
def test_libraries_without_compute_are_told(tmp_path: Path, name: str):
    """docker/compose#8583, mudler/LocalAI#11973: nvidia-smi works, libcuda.so.1 is not there."""
    capabilities, variable, without = LIBRARIES[name]
    reserved = f"deploy: {{resources: {{reservations: {{devices: [{{count: 1, capabilities: {capabilities}}}]}}}}}}"
    service = f"image: vllm/vllm-openai:v0.11.0, ipc: host, environment: {{{variable}}}, {reserved}"
    found = of_compose(tmp_path, f"services:\n  serve: {{{service}}}\n  smi: {{image: x, {reserved}}}\n")
    assert [one["slug"] for one in found] == ["compose-without-libcuda"] * without


AS_USER = {
    "a volume": ("user: '1000:1000', volumes: ['~/.cache/hf:/root/.cache/hf:rw']", "HF_HOME: /data/hf"),
    "a volume of many words": ("user: app, volumes: [{target: /root/.ollama}]", "/data/ollama in place of /root/"),
    "a variable": ("user: '1000', environment: {HF_HOME: /root/hf}", "HF_HOME: /data/hf"),
    "root": ("user: root, volumes: ['/m:/root/.cache/huggingface']", ""),
    "a home of its own": ("user: '1000', volumes: ['/m:/root'], environment: {HF_HOME: /root/hf}", ""),
    "no user": ("volumes: ['/m:/root/.cache/huggingface']", ""),
    "elsewhere": ("user: '1000', volumes: ['/m:/data'], environment: {HF_HOME: /data}", ""),
    "a volume without a name": ("user: '1000', volumes: [/data]", ""),
}


@pytest.mark.parametrize("name", AS_USER)
def test_a_service_with_a_user_of_its_own_cannot_enter_root(tmp_path: Path, name: str):
    text, fix = AS_USER[name]
    service = f"{{image: vllm/vllm-openai:v0.11.0, gpus: all, ipc: host, {text}}}"
    found = of_compose(tmp_path, f"services:\n  serve: {service}\n")
    assert [one["slug"] for one in found] == ["image-user-without-access"] * bool(fix)
    assert not fix or fix in found[0]["fixes"][0]["steps"][0]["text"]


GATED = BASE + 'ENTRYPOINT ["/app/entry.sh"]\nCMD ["python", "app.py"]\n'
GOES_ON = {
    "a line of its own": (
        'gpudoctor preflight --require "gpu>=1"\npython app.py\n',
        '--require "gpu>=1" -- python app.py',
    ),
    "by exec": ('#!/bin/bash\ngpudoctor preflight --\nexec "$@"\n', '-- "$@"'),
    "a pipe": ('#!/bin/bash\nset -e\ngpudoctor preflight 2>&1 | tee /log\nexec "$@"\n', '-- "$@"'),
    "in the background": ('set -e\ngpudoctor preflight &\nexec "$@"\n', '-- "$@"'),
}
STOPS = {
    "set -e": "set -euo pipefail\ngpudoctor preflight\npython app.py\n",
    "in the first line": "#!/bin/bash -e\ngpudoctor preflight\npython app.py\n",
    "a pipe that fails with it": "set -euo pipefail\ngpudoctor preflight 2>&1 | tee /log\npython app.py\n",
    "the status of a pipe": "gpudoctor preflight | tee /log\n[ ${PIPESTATUS[0]} = 0 ] || exit 1\npython app.py\n",
    "a job that is waited for": "gpudoctor preflight &\nprepare\nwait $! || exit 1\npython app.py\n",
    "or exit": "gpudoctor preflight || exit 1\npython app.py\n",
    "and": "gpudoctor preflight && python app.py\n",
    "if": "if gpudoctor preflight; then python app.py; fi\n",
    "if not": "if ! gpudoctor preflight; then export MODE=cpu; fi\npython app.py\n",
    "its status": "gpudoctor preflight\nstatus=$?\n[ $status = 0 ] || exit $status\npython app.py\n",
    "its command": "gpudoctor preflight -- python app.py\n",
    "nothing after": "echo hello\ngpudoctor preflight\n",
    "tolerated": "gpudoctor preflight || true\npython app.py\n",
    "a check": "gpudoctor check\npython app.py\n",
    "it never refuses": "gpudoctor preflight --fail-on never\npython app.py\n",
}
NO_ONE_PROGRAM = {
    "two in the background": "gpudoctor preflight\npython a.py &\npython b.py &\nwait\n",
    "a pipe": "gpudoctor preflight\npython app.py | tee log\n",
    "the last is not the program": "gpudoctor preflight\npython app.py\necho done\n",
    "a variable for it alone": "gpudoctor preflight\nOMP_NUM_THREADS=4 python app.py\n",
}


@pytest.mark.parametrize("name", GOES_ON)
def test_a_script_that_goes_on_after_its_preflight_refused_is_warned_about(name: str):
    script, fix = GOES_ON[name]
    (found,) = findings(GATED, {"entry.sh": script})
    assert (found.slug, found.severity) == ("image-preflight-ignored", "warning")
    where = f"entry.sh:{script.count(chr(10))}: exec gpudoctor preflight "
    assert lines(found).split("\n")[1] == where + fix


@pytest.mark.parametrize("name", NO_ONE_PROGRAM)
def test_a_preflight_becomes_no_program_where_a_script_starts_several(name: str):
    (found,) = findings(GATED, {"entry.sh": NO_ONE_PROGRAM[name]})
    assert found.slug == "image-preflight-ignored"
    assert lines(found) == "entry.sh:1: above it: set -e"


def test_a_shell_that_is_told_to_stop_is_fine():
    script = "gpudoctor preflight\npython app.py\n"
    stopping = BASE + 'CMD ["bash", "-eu", "/app/entry.sh"]\n'
    assert findings(stopping, {"entry.sh": script}) == []


def test_lines_of_a_second_script_are_not_those_of_the_first():
    both = BASE.replace("app.py", "first.sh") + "CMD /app/first.sh && /app/entry.sh\n"
    scripts = {"first.sh": "echo hello\n", "entry.sh": "\n" * 30 + "gpudoctor preflight\npython app.py\n"}
    assert findings(both, scripts) == []


@pytest.mark.parametrize("name", STOPS)
def test_a_script_that_stops_where_its_preflight_refused_is_fine(name: str):
    assert findings(GATED, {"entry.sh": STOPS[name]}) == []


TEXT_GOES_ON = {
    "exec form": (
        'ENTRYPOINT ["/bin/sh", "-c", "gpudoctor preflight; exec python app.py"]',
        'ENTRYPOINT ["/bin/sh", "-c", "exec gpudoctor preflight -- python app.py"]',
    ),
    "shell form": ("CMD gpudoctor preflight ; python app.py", "CMD exec gpudoctor preflight -- python app.py"),
    "after another": (
        "CMD cd /app && gpudoctor preflight; exec python app.py",
        "CMD cd /app && exec gpudoctor preflight -- python app.py",
    ),
    "before two": (
        "CMD gpudoctor preflight; mkdir -p /tmp/a && python app.py",
        "CMD gpudoctor preflight && mkdir -p /tmp/a && python app.py",
    ),
    "before what the shell does": (
        "CMD gpudoctor preflight; . /opt/venv/bin/activate",
        "CMD gpudoctor preflight && . /opt/venv/bin/activate",
    ),
    "before a script": (
        "CMD gpudoctor preflight; exec /app/entry.sh",
        "CMD exec gpudoctor preflight -- /app/entry.sh",
    ),
    "a sign between quotes": (
        "CMD gpudoctor preflight --require 'gpu>=1;torch'; python app.py",
        "CMD exec gpudoctor preflight --require 'gpu>=1;torch' -- python app.py",
    ),
    "behind tini": (
        'ENTRYPOINT ["tini", "-g", "--", "bash", "-c", "gpudoctor preflight; python app.py"]',
        'ENTRYPOINT ["tini", "-g", "--", "bash", "-c", "exec gpudoctor preflight -- python app.py"]',
    ),
    "a pipe, whose last command counts": (
        'ENTRYPOINT ["sh", "-c", "gpudoctor preflight 2>&1 | tee /log && python app.py"]',
        'ENTRYPOINT ["sh", "-c", "exec gpudoctor preflight -- python app.py"]',
    ),
    "set -e does not see into a pipe": (
        "CMD set -e; gpudoctor preflight | tee -a /log; exec python app.py",
        "CMD set -e; exec gpudoctor preflight -- python app.py",
    ),
    "in the background": ("CMD gpudoctor preflight & python app.py", "CMD exec gpudoctor preflight -- python app.py"),
    "into a file": (
        "CMD gpudoctor preflight --level static > /log 2>&1; python app.py",
        "CMD exec gpudoctor preflight --level static -- python app.py",
    ),
    "before several": (
        "CMD gpudoctor preflight; mkdir -p /tmp/a; python app.py",
        "CMD gpudoctor preflight || exit; mkdir -p /tmp/a; python app.py",
    ),
    "ENTRYPOINT with the shell, CMD with its text": (
        'ENTRYPOINT ["bash", "-c"]\nCMD ["gpudoctor preflight; python app.py"]',
        'CMD ["exec gpudoctor preflight -- python app.py"]',
    ),
    "as a module": (
        "CMD python -m gpudoctor preflight; python app.py",
        "CMD exec python -m gpudoctor preflight -- python app.py",
    ),
}
TEXT_STOPS = {
    "and": "CMD gpudoctor preflight && python app.py",
    "becomes it": "CMD gpudoctor preflight -- python app.py; echo ended",
    "set -e": "CMD set -e; gpudoctor preflight; python app.py",
    "a shell that stops": 'ENTRYPOINT ["sh", "-ec", "gpudoctor preflight; python app.py"]',
    "a pipe that fails": 'SHELL ["bash", "-o", "pipefail", "-c"]\nCMD gpudoctor preflight | tee l && python a',
    "set -o pipefail": "CMD set -eo pipefail; gpudoctor preflight 2>&1 | tee /log; python app.py",
    "the end of a pipe": "CMD python app.py && gpudoctor preflight | tee /log",
    "a job that is waited for": "CMD gpudoctor preflight & prepare; wait $! && python app.py",
    "its output in a file": "CMD gpudoctor preflight > /log 2>&1 && python app.py",
    "a pipe with a command of its own": "CMD gpudoctor preflight -- python app.py 2>&1 | tee /log; echo ended",
    "a look at it": "CMD gpudoctor preflight; code=$?; [ $code = 0 ] && python app.py",
    "a report": "CMD gpudoctor preflight --fail-on never; python app.py",
    "a report between quotes": "CMD gpudoctor preflight --fail-on 'never'; python app.py",
    "a script with its own": "CMD gpudoctor preflight; exec /app/entry.sh",
    "meant": "CMD gpudoctor preflight || true; python app.py",
    "the last": "CMD python prepare.py; gpudoctor preflight;",
    "quoted": "CMD echo 'gpudoctor preflight; python'",
    "quoted behind a semicolon": "CMD echo 'first; gpudoctor preflight; then python'; python app.py",
    "two words in one": "CMD gpudoctor preflight --require 'gpu>=1;torch' && python app.py",
}


@pytest.mark.parametrize("name", TEXT_GOES_ON)
def test_a_text_for_a_shell_that_goes_on_after_its_preflight_refused(name: str):
    text, fix = TEXT_GOES_ON[name]
    (found,) = findings(BASE + text, {"entry.sh": "python app.py\n"})
    assert (found.slug, found.severity) == ("image-preflight-ignored", "warning")
    assert lines(found) == f"Dockerfile:{5 + text.count(chr(10))}: {fix}"


@pytest.mark.parametrize("name", TEXT_STOPS)
def test_a_text_for_a_shell_that_stops_where_its_preflight_refused_is_fine(name: str):
    script = {"entry.sh": "exec gpudoctor preflight -- python app.py\n"}
    assert "image-preflight-ignored" not in [one.slug for one in findings(BASE + TEXT_STOPS[name], script)]


@pytest.mark.parametrize(
    "start",
    [
        'ENTRYPOINT ["tini", "--", "/app/entry.sh"]',
        'ENTRYPOINT ["/usr/bin/dumb-init", "--", "bash", "/app/entry.sh"]',
        'ENTRYPOINT ["gosu", "app", "/app/entry.sh"]',
        'ENTRYPOINT ["su-exec", "1000:1000", "/app/entry.sh"]',
        'ENTRYPOINT ["tini", "-p", "SIGTERM", "--", "env", "-u", "PYTHONPATH", "/app/entry.sh"]',
        'ENTRYPOINT ["tini", "-g", "--", "su-exec", "app:app", "/app/entry.sh"]',
        "CMD exec env LANG=C /app/entry.sh",
        'CMD ["timeout", "60", "sh", "/app/entry.sh"]',
    ],
)
def test_a_script_behind_another_program_is_followed(start: str):
    script = {"entry.sh": "gpudoctor preflight\nexport CUDA_VISIBLE_DEVICES=all\nexec python app.py\n"}
    found = {one.slug: lines(one) for one in findings(BASE + start, script)}
    assert "entry.sh:3: exec gpudoctor preflight -- python app.py" in found["image-preflight-ignored"]
    assert found["image-hides-gpus"] == "entry.sh:2: remove this variable."


def test_the_text_of_a_container_goes_on_after_its_preflight_refused(tmp_path: Path):
    (tmp_path / "pod.yaml").write_text(
        "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n    - name: t\n      image: example.org/own:1\n"
        '      command: [sh, -c, "gpudoctor preflight; python app.py"]\n'
    )
    (found,) = dockerfile_report(tmp_path / "pod.yaml")["findings"]
    assert found["slug"] == "image-preflight-ignored"
    assert found["fixes"][0]["steps"][0]["text"].endswith(
        'pod.yaml:7: command: ["sh", "-c", "exec gpudoctor preflight -- python app.py"]'
    )


IN_PLACE = "8: in args, in place of `gpudoctor preflight` and what follows:\n"
IN_ARGS = (
    "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n    - name: t\n      image: example.org/own:1\n"
    "      command: [bash, -c]\n      args:\n"
)


@pytest.mark.parametrize(
    ("args", "fix"),
    [
        (
            '        - "gpudoctor preflight; exec python app.py"\n',
            '8: args: ["exec gpudoctor preflight -- python app.py"]',
        ),
        (
            "        - |\n          nvidia-smi\n          gpudoctor preflight\n          torchrun app.py\n",
            IN_PLACE + "    exec gpudoctor preflight -- torchrun app.py",
        ),
        (
            "        - |\n          gpudoctor preflight\n          cd /app\n          torchrun app.py\n",
            IN_PLACE + "    gpudoctor preflight || exit; cd /app\n    torchrun app.py",
        ),
        ('        - "gpudoctor preflight && exec python app.py"\n', ""),
        ("        - |\n          set -e\n          gpudoctor preflight\n          torchrun app.py\n", ""),
    ],
)
def test_the_text_for_the_shell_of_a_container_may_stand_in_args(tmp_path: Path, args: str, fix: str):
    (tmp_path / "pod.yaml").write_text(IN_ARGS + args)
    found = dockerfile_report(tmp_path / "pod.yaml")["findings"]
    assert [one["slug"] for one in found] == ["image-preflight-ignored"] * bool(fix)
    assert not fix or found[0]["fixes"][0]["steps"][0]["text"].endswith(f"pod.yaml:{fix}")


def test_a_service_whose_shell_runs_a_preflight_does_not_drop_it(tmp_path: Path):
    (tmp_path / "Dockerfile").write_text(BASE + PREFLIGHT + START)
    text = "gpudoctor preflight && exec python serve.py"
    for started in (f'    entrypoint: [sh, -c]\n    command: ["{text}"]\n', f'    entrypoint: sh -c "{text}"\n'):
        (tmp_path / "compose.yaml").write_text(
            f"services:\n  serve:\n    build: .\n    gpus: all\n    ipc: host\n{started}"
        )
        assert dockerfile_report(tmp_path / "compose.yaml")["findings"] == []


def test_an_entrypoint_and_a_command_of_a_service_become_one(tmp_path: Path):
    (tmp_path / "Dockerfile").write_text(BASE + PREFLIGHT + START)
    (tmp_path / "compose.yaml").write_text(
        "services:\n  serve:\n    build: .\n    gpus: all\n    entrypoint: [python, serve.py]\n"
        '    command: ["--port", "9000"]\n'
    )
    (found,) = dockerfile_report(tmp_path / "compose.yaml")["findings"]
    assert found["slug"] == "compose-drops-preflight"
    assert found["fixes"][0]["steps"][0]["text"].replace(f"{tmp_path}/", "") == (
        'compose.yaml:5: leave out entrypoint\ncompose.yaml:6: command: ["python", "serve.py", "--port", "9000"]'
    )
