"""Environments with the metadata of every torch release of the package index."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from gpudoctor.host import LiveHost
from gpudoctor.probes.python_environment import probe_environment
from tests.support.environments import write_torch, write_venv

REQUIRES: dict[str, list[str]] = yaml.safe_load(
    Path(__file__).with_name("cases").joinpath("torch_requires.yaml").read_text()
)
CUDA_SINCE = (
    ((1, 13), "11.7"),
    ((2, 1), "12.1"),
    ((2, 5), "12.4"),
    ((2, 7), "12.6"),
    ((2, 8), "12.8"),
    ((2, 11), "13.0"),
    ((2, 15), "13.2"),
)
"""Of the builds on the package index, as read from their libraries."""


@pytest.mark.parametrize("version", REQUIRES)
def test_a_release_of_the_package_index(tmp_path: Path, version: str) -> None:
    number = tuple(int(part) for part in version.split(".")[:2])
    cuda = [cuda for since, cuda in CUDA_SINCE if number >= since][-1]
    build = "cu" + cuda.replace(".", "")
    site = write_venv(tmp_path / "venv")
    write_torch(site, f"{version}+{build}", cuda, requires=REQUIRES[version], dist_version=version)
    environment = probe_environment(LiveHost(), str(tmp_path / "venv"), {}).value
    assert environment is not None
    torch = environment.torch.value
    assert torch is not None
    assert (torch.build, torch.cuda, torch.origin) == (build, cuda, "pypi")
    assert [copy.via for copy in torch.copies] == ["site"]
    assert torch.damaged == ()
    distribution = environment.distribution("torch")
    assert distribution is not None
    assert distribution.requires == tuple(REQUIRES[version])
