"""How a plugin tests its checks: machines and `check_result` of `gpudoctor.testing`."""

from __future__ import annotations

from gpudoctor.testing import amd_machine, check_result, nvidia_machine
from tests.example_plugin.gpudoctor_acme import driver_branch


def test_another_branch_is_told_and_the_supported_one_is_not():
    (finding,) = check_result(driver_branch, nvidia_machine(driver="570.133.07")).findings
    assert (finding.id, finding.slug, finding.saw) == ("ACME001", "acme-driver-branch", "570.133.07")
    assert check_result(driver_branch, nvidia_machine(driver="580.95.05")).findings == ()
    assert check_result(driver_branch, amd_machine()).findings == ()
