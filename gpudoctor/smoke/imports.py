"""The import of a framework beside torch, in a child of its own in the examined interpreter."""

from __future__ import annotations

from gpudoctor.host import Host
from gpudoctor.host.interrupts import deferred
from gpudoctor.host.supervision import supervising
from gpudoctor.host.temporary import temporary_folder
from gpudoctor.machine import Fact, ImportTrial, unknown
from gpudoctor.smoke.child import Child
from gpudoctor.smoke.plan import KERNELS, Limits
from gpudoctor.smoke.trial import try_import

_LIMITS = Limits()


def try_module(host: Host, interpreter: str, module: str, *, limits: Limits = _LIMITS) -> Fact[ImportTrial]:
    """What became of an import; nothing is left behind. A signal that comes meanwhile (Ctrl-C, SIGTERM) takes effect
    when the child is gone."""
    source = f"import {module} in {interpreter}"
    with deferred() as interruptions, supervising(limits.importing):
        try:
            with temporary_folder("import") as folder:
                child = Child(interpreter, host.environ, folder, KERNELS, interruptions, module=module)
                return _followed(child, interpreter, module, limits)
        except (OSError, ValueError) as error:  # no process, no temporary folder: nothing is known of the module
            return unknown(f"import {module} could not be tried: {error}", source)


def _followed(child: Child, interpreter: str, module: str, limits: Limits) -> Fact[ImportTrial]:
    patient = False
    try:
        trial, lost = try_import(child, interpreter, limits, module=module)
        patient = lost is None
        return trial
    finally:
        child.end(patient)
