"""Texts with the answers of commands: of `dkms status`, of a Python that was asked for torch, of rocminfo, of lspci."""

from __future__ import annotations

import pytest

from tests.support.judged_texts import machine, problems

NO_DRIVER = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n"
BUILT_FOR_33 = "nvidia/550.163.01, 6.14.0-33-generic, x86_64: installed\n"


# --- dkms ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        f"$ uname -r\n6.14.0-35-generic\n$ dkms status\n{BUILT_FOR_33}{NO_DRIVER}RTX 3070\n",
        f"$ dkms status\n{BUILT_FOR_33}$ uname -r\n6.14.0-35-generic\n{NO_DRIVER}RTX 3070\n",
        f"{NO_DRIVER}Linux pc 6.14.0-35-generic #35-Ubuntu SMP x86_64 GNU/Linux\n{BUILT_FOR_33}RTX 3070\n",
        f"$ uname -r && dkms status\n6.14.0-35-generic\n{BUILT_FOR_33}{NO_DRIVER}RTX 3070\n",
        f"$ uname -r\n6.14.0-35-generic\n$ dkms status\nnvidia, 550.163.01: added\n{NO_DRIVER}RTX 3070\n",
    ],
)
def test_a_module_that_dkms_built_for_another_kernel_only_is_why_no_driver_answers(text: str) -> None:
    assert machine(text).system.kernel.value == "6.14.0-35-generic"
    assert problems(text)[0] == "nvidia-dkms-kernel-mismatch"


def test_a_module_that_dkms_built_for_the_running_kernel_accuses_no_kernel() -> None:
    both = f"$ uname -r\n6.14.0-33-generic\n{BUILT_FOR_33}nvidia/550.163.01, 6.8.0-60-generic, x86_64: installed\n"
    assert problems(f"{both}{NO_DRIVER}RTX 3070\n")[0] == "no-driver"
    assert not problems(f"$ uname -r\n6.14.0-35-generic\n{BUILT_FOR_33}RTX 3070\ntorch 2.8.0+cu128\n")
