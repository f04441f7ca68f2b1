"""The two fixes where the driver does not run the CUDA of a framework: another driver, or another build."""

from __future__ import annotations

from gpudoctor.finding import Fix, ReplaceTorch, by_hand
from gpudoctor.frameworks.torch.installed_build import better_torch
from gpudoctor.matrix.versions import figures
from gpudoctor.situation import Situation
from gpudoctor.situation.virtual_gpu import is_vgpu


def builds_for_this_driver(situation: Situation) -> tuple[Fix, ...]:
    """Builds of torch that run on the present driver."""
    return tuple(
        fix for fix in better_torch(situation) if any(isinstance(remedy, ReplaceTorch) for remedy in fix.remedies[:1])
    )


def driver_or_builds(situation: Situation, floor: str, builds: tuple[Fix, ...]) -> tuple[Fix, ...]:
    """A newer driver, and builds that run on the present one; first comes what can be done from here."""
    driver = _driver_fix(situation, floor)
    if driver is None:
        unnamed = floor and any(gpu.arch.value is None for gpu in situation.usable_of("nvidia"))
        return builds or ((_at_least(floor),) if unnamed else better_torch(situation))
    # A container, or a guest with a vGPU, cannot choose its driver.
    drivers_are_the_hosts = situation.in_container or any(map(is_vgpu, situation.usable_of("nvidia")))
    return (*builds, driver) if drivers_are_the_hosts else (driver, *builds)


def _at_least(floor: str) -> Fix:
    """The driver for a GPU that nobody named, and so one that may need an older branch than the newest."""
    text = (
        f"Install NVIDIA driver {floor} or newer, and no newer one than names the GPU in its list of supported "
        "products (`nvidia-smi -L` names the GPU); then reboot."
    )
    return by_hand(f"Update the NVIDIA driver to {floor} or newer", text, "reboot")


def _driver_fix(situation: Situation, floor: str) -> Fix | None:
    if situation.on_jetson:
        return None
    from gpudoctor.situation.driver_choice import driver_to_install, install_driver

    remedy = driver_to_install(situation)
    older = remedy is None or figures(remedy.branch)[:1] < figures(floor)[:1]
    if older and not situation.in_wsl:
        return None
    return install_driver(situation)
