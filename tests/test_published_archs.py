"""Builds of publishers outside the wheel indexes, where no library can be read."""

from __future__ import annotations

import pytest

from gpudoctor.frameworks.torch.coverage import carries
from gpudoctor.matrix.load import load_matrix
from gpudoctor.situation import Situation
from tests.support.machines import nvidia_gpu, nvidia_machine, torch


@pytest.mark.parametrize(
    ("version", "origin", "cuda", "gpu", "runs"),
    [
        ("2.9.0a0+145a3a7bda.nv25.10", "ngc", "13.0", "sm_90", "yes"),
        ("2.9.0a0+145a3a7bda.nv25.10", "ngc", "13.0", "sm_70", "no"),
        ("2.4.0a0+3bcc3cddb5.nv24.7", "ngc", "12.5", "sm_70", "yes"),
        ("2.7.1", "conda-forge", "12.9", "sm_120", "yes"),
        ("2.5.1", "conda-forge", "12.6", "sm_61", "yes"),
        ("2.5.0a0+872d972e41.nv24.8", "jetson", "12.6", "sm_87", "yes"),
        ("2.9.0a0+git1234567", "source", "12.8", "sm_89", "unknown"),
    ],
)
def test_a_publishers_list_answers_where_no_file_does(version, origin, cuda, gpu, runs):
    patient = torch(version, origin=origin, cuda=cuda, build=None)
    machine = nvidia_machine(nvidia_gpu("gpu", gpu), driver="595.71.05", torch=patient)
    assert carries(Situation(machine, load_matrix(())), machine.gpus[0]).runs == runs
