"""The finding of an import that failed, of torch or of what is beside it."""

from __future__ import annotations

from typing import Any

from gpudoctor.finding import Evidence, Finding
from gpudoctor.frameworks.torch.file_faults import ImportFault
from gpudoctor.machine import ImportTrial

_LONGEST = 300
"""Characters of an error that the message repeats."""


def failed_import(module: str, trial: ImportTrial, source: str, fault: ImportFault, **parts: Any) -> Finding:
    """What happened at `import module`, why, and the fixes. `source` is where that was seen, `parts` are the other
    fields of a Finding."""
    error = trial.error.rstrip(".")
    error = error if len(error) <= _LONGEST else f"{error[:_LONGEST].rstrip()} [...]"
    ended = f"ended with {trial.signal}" if trial.signal else "failed"
    happened = f"gave {error}" if error.startswith("no answer") else f"{ended}: {error}" if error else ended
    return Finding(
        severity="error",
        message=f"`import {module}` {happened}.{f' {fault.why}' if fault.why else ''}",
        saw=f"import {module} ended with {trial.signal}" if trial.signal else trial.error[:200] or "no answer",
        want="an import that works",
        evidence=(
            Evidence(f"{module}.trial", trial.signal or trial.error, source),
            *(
                Evidence(f"{module}.trial.file", file.problem, file.path)
                for file in trial.suspects[:3]
                if file.problem
            ),
        ),
        fixes=fault.fixes,
        **parts,
    )
