"""Environments with the real metadata of every torch release of the package index."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpudoctor.host import LiveHost
from gpudoctor.probes.python_environment import probe_environment
from tests.support.environments import write_torch, write_venv

META = Path(__file__).parents[2] / "shared" / "wheels" / "torch_pypi_meta.json"
pytestmark = pytest.mark.skipif(not META.exists(), reason="the collection of real wheel metadata is not here")

CUDA_SINCE = (
    ((1, 13), "11.7"),
    ((2, 1), "12.1"),
    ((2, 5), "12.4"),
    ((2, 7), "12.6"),
    ((2, 8), "12.8"),
    ((2, 11), "13.0"),
    ((2, 15), "13.2"),
)
"""Typed from the table in the collection's README."""


def releases() -> list[tuple[str, dict[str, Any]]]:
    if not META.exists():
        return []
    return [
        (version, files["linux_x86_64_cp311"])
        for version, files in json.loads(META.read_text()).items()
        if "linux_x86_64_cp311" in files
    ]


@pytest.mark.parametrize(("version", "file"), releases(), ids=[version for version, _ in releases()])
def test_a_release_of_the_package_index(tmp_path: Path, version: str, file: dict[str, Any]) -> None:
    number = tuple(int(part) for part in version.split(".")[:2])
    cuda = [cuda for since, cuda in CUDA_SINCE if number >= since][-1]
    build = "cu" + cuda.replace(".", "")
    site = write_venv(tmp_path / "venv")
    write_torch(site, f"{version}+{build}", cuda, requires=file["requires_dist"], dist_version=version)
    environment = probe_environment(LiveHost(), str(tmp_path / "venv"), {}).value
    assert environment is not None
    torch = environment.torch.value
    assert torch is not None
    assert (torch.build, torch.cuda, torch.origin) == (build, cuda, "pypi")
    assert [copy.via for copy in torch.copies] == ["site"]
    assert torch.damaged == ()
    distribution = environment.distribution("torch")
    assert distribution is not None
    assert distribution.requires == tuple(file["requires_dist"])
