"""Checks of ACME: a plugin of gpudoctor, named by `--plugin acme` or `[tool.gpudoctor] plugins = ["acme"]`."""

from __future__ import annotations

from gpudoctor.check import Verdicts, check
from gpudoctor.finding import Device, Evidence, Finding, Fix, InstallDriver, NotJudged
from gpudoctor.situation import Situation

BRANCH = "580"


@check("ACME001", "acme-driver-branch", "driver")
def driver_branch(situation: Situation) -> Verdicts:
    """The NVIDIA driver is not of the branch that ACME supports.

    ## Why it matters
    Only this branch is tested with ACME's jobs.

    ## How it is judged
    By the version of the loaded kernel module.

    ## Fix safety
    Replaces the driver; it takes effect with a reboot.
    """
    gpus = situation.machine.of_vendor("nvidia")
    module = situation.machine.nvidia.module
    if not gpus:
        return
    if module.value is None:
        yield NotJudged(why="the version of the NVIDIA driver is not known")
    elif module.value.version.partition(".")[0] != BRANCH:
        yield Finding(
            severity="warning",
            message=f"Driver {module.value.version} is not of branch {BRANCH}, which ACME supports.",
            saw=module.value.version,
            want=f"{BRANCH}.*",
            subject="NVIDIA driver",
            devices=tuple(map(Device.of, gpus)),
            evidence=(Evidence("nvidia.module", module.value.version, module.source),),
            fixes=(Fix(f"Install a driver of branch {BRANCH}", (InstallDriver(branch=BRANCH),)),),
        )
