"""What an import that was tried before a change says after it: nothing."""

from __future__ import annotations

from msgspec.structs import replace

from gpudoctor.machine import PythonEnvironment, unknown


def imported_anew(environment: PythonEnvironment) -> PythonEnvironment:
    """The environment, its frameworks not imported yet."""
    frameworks = environment.frameworks
    if frameworks.imports:
        environment = replace(environment, frameworks=replace(frameworks, imports=()))
    torch = environment.torch.value
    if torch is None or not torch.trial.known:
        return environment
    untried = replace(torch, trial=unknown("not imported since the change"))
    return environment.with_torch(replace(environment.torch, value=untried))
