"""Whether the programs that installed packages start may be executed (GPD476)."""

from __future__ import annotations

import posixpath

from gpudoctor.check import Verdicts, check
from gpudoctor.finding import AllowExecution, Evidence, Finding, Fix
from gpudoctor.situation import Situation

_EFFECTS = {
    "ptxas": "torch.compile and other compilers of GPU code stop with `Permission denied`",
    "torch_shm_manager": "torch cannot share tensors between processes through files",
}


@check("GPD476", "programs-not-executable", "packages")
def programs_not_executable(situation: Situation) -> Verdicts:
    """Programs that GPU packages start have lost the right to be executed.

    ## Why it matters
    Triton and XLA start ptxas to compile kernels, torch starts torch_shm_manager to share tensors between processes:
    "Permission denied", "execl failed". Copies through zip files, Windows shares and some volumes lose the right.

    ## How it is judged
    RECORD names the programs in the bin folders of torch, of other GPU packages and of what they require. One is
    reported if nobody may execute it. It is a warning: work that does not need the program goes on.

    ## Fix safety
    Gives these files the right to be executed; their contents stay.
    """
    owners = [one for one in situation.machine.packages if one.locked and not one.unlinked]
    if not owners:
        return
    paths = tuple(file.path for one in owners for file in one.locked)
    names = tuple(dict.fromkeys(map(posixpath.basename, paths)))
    effects = [text for name, text in _EFFECTS.items() if name in names]
    named = ", ".join(f"{one.name} {one.version}" for one in owners)
    yield Finding(
        severity="warning",
        message=f"Nobody may execute {', '.join(names)} of {named}{': ' if effects else ''}{'; '.join(effects)}.",
        saw="no right to execute",
        want="executable programs",
        subject=f"{owners[0].name} {owners[0].version}",
        evidence=tuple(Evidence("mode", "not executable", path) for path in paths[:10]),
        fixes=(Fix("Allow their execution", (AllowExecution(paths, why="the packages start these programs"),)),),
    )
