"""Modules that the kernel refuses for their signature (GPD112, GPD139)."""

from __future__ import annotations

from gpudoctor.check import Verdicts, check
from gpudoctor.finding import Evidence, Finding, Fix, Severity, by_hand
from gpudoctor.machine import Gpu
from gpudoctor.situation import Situation
from gpudoctor.situation.gpu_groups import called, finding
from gpudoctor.situation.kernel_log import log_evidence
from gpudoctor.situation.kernel_modules import LOCKDOWN, SECURE_BOOT, key_rejected
from gpudoctor.situation.no_kernel_driver import because
from gpudoctor.situation.working_gpus import worthwhile


@check("GPD112", "secure-boot-module-rejected", "driver")
def secure_boot_module_rejected(situation: Situation) -> Verdicts:
    """Secure Boot refuses the GPU's kernel module: its key is not enrolled.

    ## Why it matters
    The module is built and installed, but the kernel refuses to load it ("Key was rejected by service").

    ## How it is judged
    Certain if the kernel log has this line. Likely if Secure Boot is on, and the module for the running kernel is
    installed but not loaded, and no rule forbids it.

    ## Fix safety
    A person enrols the key at the next boot, at the console. Switching Secure Boot off lowers the protection.
    """
    off = "Switch Secure Boot off in the firmware setup, if your security rules allow it."
    for severity, gpus in because(situation, SECURE_BOOT):
        yield _unsigned(
            situation,
            severity,
            gpus,
            "Secure Boot is on" if situation.machine.system.secure_boot.value else "Secure Boot seems to be on",
            Evidence.of("system.secure_boot", situation.machine.system.secure_boot),
            by_hand("Switch Secure Boot off", off, "reboot"),
        )


@check("GPD139", "kernel-lockdown", "driver")
def kernel_lockdown(situation: Situation) -> Verdicts:
    """The kernel accepts only signed modules, and the GPU's is not signed.

    ## Why it matters
    The module is built and installed, but the kernel refuses to load it. Switching Secure Boot off changes nothing:
    the kernel's own lockdown, or its option module.sig_enforce, demands the signature.

    ## How it is judged
    Secure Boot is not on, and the kernel log says that a module was refused for its signature. Without that line it
    is likely if /sys/kernel/security/lockdown or the kernel command line enforces signatures, and the module for the
    running kernel is installed but not loaded, and no rule forbids it.

    ## Fix safety
    A signature that the kernel trusts keeps the protection. Removing the kernel option lowers it.
    """
    system = situation.machine.system
    text = (
        "Remove `lockdown=` and `module.sig_enforce` from the kernel command line (/etc/default/grub, then "
        "`sudo update-grub` or grub2-mkconfig), if your security rules allow it, and reboot."
    )
    locked = system.lockdown.value in ("integrity", "confidentiality")
    for severity, gpus in because(situation, LOCKDOWN):
        yield _unsigned(
            situation,
            severity,
            gpus,
            f"The kernel is locked down ({system.lockdown.value})"
            if locked
            else "The kernel accepts only signed modules",
            Evidence.of("system.lockdown", system.lockdown),
            by_hand("Boot without lockdown and module.sig_enforce", text, "reboot"),
        )


def _enrolment(situation: Situation, module: str) -> str:
    """The commands that make a key, sign with it and enrol it. DKMS and akmods sign what they build; what was built
    before the key is signed here."""
    os = situation.machine.system.os.value
    row = situation.matrix.distributions.module_key(os) if os else None
    last = 'Then reboot, and choose "Enroll MOK" on the blue screen, with the password that you gave to mokutil.'
    if row is None:
        return (
            "Sign the module with a machine owner key and enrol that key: `sudo mokutil --import` with its "
            f"certificate (of DKMS: /var/lib/dkms/mok.pub). {last}"
        )
    return "\n".join(
        (
            f"[ -e {row.certificate} ] || sudo {row.create}",
            f'[ -n "$(modinfo -F signer {module})" ] || sudo {row.sign} "$(modinfo -n {module})"',
            f"sudo mokutil --import {row.certificate}",
            last,
        )
    )


def _unsigned(
    situation: Situation, severity: Severity, gpus: tuple[Gpu, ...], rule: str, fact: Evidence, without: Fix
) -> Finding:
    """A module that the kernel refuses for its signature; `without` is the fix that lowers the protection."""
    lines = key_rejected(situation, gpus[0].vendor)
    module = "nvidia" if gpus[0].vendor == "nvidia" else "amdgpu"
    enrol = _enrolment(situation, module)
    return finding(
        severity,
        gpus,
        message=f"{rule}, and the kernel refuses the module {module} for {called(gpus)}: its signature is not "
        "trusted.",
        saw=lines[-1].line if lines else f"{rule}, {module} installed and not loaded",
        want=f"{module} signed with an enrolled key",
        confidence="certain" if lines else "likely",
        evidence=(fact, *log_evidence(situation, lines[-1:])),
        fixes=worthwhile(
            situation, gpus, (by_hand("Enrol the key that the module is signed with", enrol, "reboot"), without)
        ),
        supersedes=("no-driver",),
    )
