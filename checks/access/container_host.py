"""What a host gives to its containers (GPD216)."""

from __future__ import annotations

from gpudoctor.check import Verdicts, check
from gpudoctor.finding import Evidence, Finding, by_hand
from gpudoctor.machine import CdiSpec
from gpudoctor.situation import Situation
from gpudoctor.situation.driver_library import same_version


@check("GPD216", "cdi-spec-stale", "access")
def cdi_spec_stale(situation: Situation) -> Verdicts:
    """A CDI specification names files of another NVIDIA driver.

    ## Why it matters
    A container that asks for a GPU by CDI (`--device nvidia.com/gpu=all`) gets the files that a specification names.
    After an update of the driver they are gone, and the container does not start ("no such file or directory"); or
    they are those of the old driver, and CUDA fails in the container.

    ## How it is judged
    On the host, the check reads the specifications in /etc/cdi and /var/run/cdi, and compares the driver version in
    their library names with the loaded module and the installed libraries. Named files that are not there count, too;
    device nodes that the driver makes at first use do not. Programs outside containers work.

    ## Fix safety
    The specification is written anew. Running containers keep what they have.
    """
    nvidia = situation.machine.nvidia
    drivers = (nvidia.module.value.version if nvidia.module.value else None, nvidia.userland.value)
    for spec in nvidia.cdi.value or ():
        others = _other_versions(spec, tuple(filter(None, drivers)))
        if not others and not spec.missing:
            continue
        version = next(filter(None, drivers), "")
        text = f"`sudo nvidia-ctk cdi generate --output={spec.path}`, then start the containers again."
        yield Finding(
            severity="warning",
            message=f"{spec.path} is made for driver {others[0]}, and the driver is {version}: CUDA fails in "
            "containers that ask for a GPU by CDI."
            if others
            else f"{spec.path} names {spec.missing[0]}, which is not there: containers that ask for a GPU by CDI do "
            "not start.",
            saw=f"driver {others[0]}" if others else spec.missing[0],
            want=f"a specification of driver {version}" if version else "files that are there",
            subject="container host",
            confidence="certain" if spec.missing else "likely",
            evidence=(
                Evidence("nvidia.cdi", ", ".join(spec.versions) or spec.kind, spec.path),
                Evidence.of("nvidia.module", nvidia.module),
                *(Evidence("nvidia.cdi", f"{path} is missing", spec.path) for path in spec.missing[:3]),
            ),
            fixes=(by_hand("Write the CDI specification anew", text, "root"),),
            refs=("podman-container-tools/podman#23935", "NVIDIA/nvidia-container-toolkit#885"),
        )


def _other_versions(spec: CdiSpec, drivers: tuple[str, ...]) -> tuple[str, ...]:
    """The versions that it names, if none of them is that of a driver here. After an update and before the reboot the
    module and the libraries differ, and either may be the right one."""
    if not drivers or any(same_version(version, driver) for version in spec.versions for driver in drivers):
        return ()
    return spec.versions
