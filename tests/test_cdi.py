"""CDI specifications of a container host."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpudoctor.host.recorded_host import RecordedHost
from gpudoctor.machine import CdiSpec, System, absent, known
from gpudoctor.probes import cdi
from gpudoctor.probes.cdi import probe_cdi
from tests.support.check_cases import below_torch, first
from tests.support.machines import nvidia_machine, with_stack

YAML = """\
---
cdiVersion: 0.5.0
containerEdits:
  deviceNodes:
  - path: /dev/nvidia-modeset
  - path: /dev/nvidiactl
  hooks:
  - args:
    - nvidia-cdi-hook
    - create-symlinks
    hookName: createContainer
    path: /usr/bin/nvidia-cdi-hook
  mounts:
  - containerPath: /usr/lib/x86_64-linux-gnu/libcuda.so.550.54.14
    hostPath: /usr/lib/x86_64-linux-gnu/libcuda.so.550.54.14
    options:
    - ro
  - containerPath: /usr/lib/x86_64-linux-gnu/libnvidia-egl-gbm.so.1.1.1
    hostPath: /usr/lib/x86_64-linux-gnu/libnvidia-egl-gbm.so.1.1.1
devices:
- containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
  name: "0"
kind: nvidia.com/gpu
"""
JSON = (
    '{"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "containerEdits": {"mounts": [{"hostPath": '
    '"/usr/lib64/libcuda.so.580.95.05", "containerPath": "/usr/lib64/libcuda.so.580.95.05"}]}}'
)


def probed(root: Path, files: dict[str, str], **system: object) -> tuple[CdiSpec, ...] | None:
    for path, text in files.items():
        place = root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    there = System(**{"container": absent("/proc"), **system})  # type: ignore[arg-type]
    return probe_cdi(RecordedHost(str(root)), there).value


def test_the_versions_that_a_specification_names(tmp_path: Path) -> None:
    (spec,) = probed(tmp_path, {"/etc/cdi/nvidia.yaml": YAML}) or ()
    assert (spec.path, spec.kind, spec.versions) == ("/etc/cdi/nvidia.yaml", "nvidia.com/gpu", ("550.54.14",))


def test_the_specification_of_the_running_system_takes_precedence(tmp_path: Path) -> None:
    files = {"/etc/cdi/nvidia.yaml": YAML, "/var/run/cdi/nvidia.json": JSON}
    (spec,) = probed(tmp_path, files) or ()
    assert (spec.path, spec.versions) == ("/var/run/cdi/nvidia.json", ("580.95.05",))


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"/etc/cdi/intel.yaml": YAML.replace("nvidia.com/gpu", "intel.com/gpu")},
        {"/etc/cdi/kata.yaml": YAML.replace("nvidia.com/gpu", "nvidia.com/pgpu")},
        {"/etc/cdi/README": YAML},
        {"/etc/cdi/nvidia.yaml": "\0\xff{" * 1000},
    ],
    ids=["none", "another vendor", "whole GPUs for virtual machines", "no specification", "garbage"],
)
def test_other_files_are_no_specification_of_gpus(tmp_path: Path, files: dict[str, str]) -> None:
    assert probed(tmp_path, files) == ()


def test_files_that_are_missing_are_named_and_nodes_that_appear_at_first_use_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RecordedHost, "live", True)
    here = {"/etc/cdi/nvidia.yaml": YAML, "/usr/lib/x86_64-linux-gnu/libcuda.so.550.54.14": "x", "/dev/nvidia0": ""}
    (spec,) = probed(tmp_path, here) or ()
    assert spec.missing == ("/usr/lib/x86_64-linux-gnu/libnvidia-egl-gbm.so.1.1.1", "/usr/bin/nvidia-cdi-hook")


def host(*, versions: tuple[str, ...] = ("580.95.05",), missing: tuple[str, ...] = (), **stack: object):
    spec = CdiSpec(path="/etc/cdi/nvidia.yaml", versions=versions, missing=missing)
    return with_stack(nvidia_machine(driver="580.95.05"), cdi=known((spec,), spec.path), **stack)


def test_a_specification_of_another_driver_is_a_warning_with_the_command_that_renews_it() -> None:
    machine = host(versions=("550.54.14",))
    assert below_torch(machine) == [("cdi-spec-stale", "warning")]
    assert "nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml" in first(machine).fixes[0].remedies[0].text
    gone = host(missing=("/usr/bin/nvidia-cdi-hook",))
    assert below_torch(gone) == [("cdi-spec-stale", "warning")]


def test_a_specification_of_this_driver_or_of_the_one_that_waits_for_a_reboot_is_silent() -> None:
    assert below_torch(host()) == []
    assert below_torch(host(versions=())) == []
    waiting = host(versions=("590.48.01",), userland=known("590.48.01", "/usr/lib"))
    assert "cdi-spec-stale" not in dict(below_torch(waiting))


def test_a_specification_is_read_within_bounds(tmp_path: Path) -> None:
    many = "".join(f"  - hostPath: /a{n}\n" for n in range(cdi._MOST_PATHS * 2))
    (spec,) = probed(tmp_path, {"/etc/cdi/nvidia.yaml": YAML + many}) or ()
    assert spec.versions == ("550.54.14",)
