"""The system that a person names: kernel, distribution, processor, container, kernel log."""

from __future__ import annotations

import re

from msgspec.structs import replace

from gpudoctor.host import InputError
from gpudoctor.host.input_file import STDIN, read_input
from gpudoctor.intake.described_gpus import SOURCE
from gpudoctor.intake.described_torch import plain_version
from gpudoctor.intake.description import Description
from gpudoctor.machine import ASSUMED, Fact, KernelLog, Machine, Os, System, absent, known, unknown
from gpudoctor.matrix.driver_packages import reaches
from gpudoctor.matrix.questions import Matrix
from gpudoctor.matrix.versions import figures
from gpudoctor.probes.container import KINDS
from gpudoctor.probes.kernel_log import log_of_text
from gpudoctor.probes.wsl_jetson import is_wsl_kernel

_PROCESSORS = {"amd64": "x86_64", "x86_64": "x86_64", "x86-64": "x86_64", "arm64": "aarch64", "aarch64": "aarch64"}
_DISTRIBUTION = (
    r"(?P<name>[a-z][a-z /_!.-]*?)"
    r"(?:[ :_-]*v?(?P<version>\d[\w.]*)(?: ?lts)?(?: ?\([\w .]+\)| [a-z]+)?|:(?P<code>[a-z]+))?"
)
_LOG_LIMIT = 64 << 20
_USUAL_KERNEL = "6.8"


def described_system(system: System, description: Description, matrix: Matrix) -> System:
    """The system with what is described of it. Raises InputError."""
    if description.kernel:
        release = plain_version("--kernel", description.kernel)
        wsl = known(release, SOURCE) if is_wsl_kernel(release) else absent(SOURCE, "no kernel of WSL")
        system = replace(system, kernel=known(release, SOURCE), wsl=wsl)
    if description.os:
        system = replace(
            system, os=known(named_os(description.os, matrix), SOURCE), libc=unknown("as that release has it", SOURCE)
        )
    if description.platform:
        system = replace(system, arch=known(_processor(description.platform), SOURCE))
    if description.container:
        system = replace(system, container=_container(description.container))
    return system


def named_os(text: str, matrix: Matrix) -> Os:
    """ "ubuntu-22.04", and as people write it: "Ubuntu 22.04 LTS", "rocky linux 9.4", "pop!_os-22.04"."""
    found = re.fullmatch(_DISTRIBUTION, text.strip().lower())
    name, version = (found["name"], found["version"] or found["code"] or "") if found else ("", "")
    if re.match(r"(windows|win\d|macos|mac os|os ?x|darwin)", name):
        raise InputError(f"--os {text!r}: gpudoctor checks Linux and WSL2 (--kernel ...-microsoft-standard-WSL2)")
    if name.startswith("wsl"):
        raise InputError(f"--os {text!r}: WSL2 is told by its kernel: --kernel 6.6.87.2-microsoft-standard-WSL2")
    row = matrix.images.distribution_named(name)
    near = matrix.images.distributions_near(name) if row is None else ()
    if near or not re.fullmatch(r"[a-z][a-z0-9_-]*", row.id if row else name):
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise InputError(f"--os {text!r}: write the distribution's id and version, such as ubuntu-22.04{hint}")
    if row is None:
        return Os(id=name, version=version, name=text)
    codename = "" if version[:1].isdigit() else version
    return Os(id=row.id, version=version, like=row.like, name=text, codename=codename, image=row.image)


def driver_version(text: str, matrix: Matrix) -> str:
    """The number of an NVIDIA driver, also as "v550.54.14" and "576,52". Raises InputError for a CUDA version:
    nvidia-smi prints both in one line, and no driver of CUDA's time has a number below 100."""
    version = plain_version("--driver", text.strip().removeprefix("v").replace(",", "."))
    if figures(version)[:1] >= (100,) or not figures(version):
        return version
    first = matrix.nvidia.first_driver_of_cuda(version)
    shown = f"CUDA {version} needs driver {first} or newer; write" if first else "write"
    raise InputError(
        f"--driver {text!r}: that is a CUDA version, not a driver's; {shown} the number that nvidia-smi shows as "
        "Driver Version"
    )


def assumed_kernel(machine: Machine, os: Os, matrix: Matrix) -> tuple[Fact[str], str]:
    """The kernel of a machine of which none is described, and what that assumes: one that its distribution ships and
    that supports its GPUs. If the distribution ships none, its newest is taken for described, and so is judged."""
    module = machine.amd.module.value
    in_tree = (gpu for gpu in machine.of_vendor("amd") if module in (None, "in-tree"))
    targets = {gpu.name: matrix.gpus.target(gpu.arch.value) for gpu in in_tree}
    firsts = {name: target.first_kernel for name, target in targets.items() if target and target.first_kernel}
    needed = max((_USUAL_KERNEL, *firsts.values()), key=figures)
    rows = matrix.distributions.kernels(os)
    if not rows or machine.system.wsl.known:
        return known(_release(needed), ASSUMED), "kernel" if needed == _USUAL_KERNEL else f"kernel {needed}"
    own, name = rows[0], f"{os.id}-{os.version}" if os.version else os.id
    if own.backports:
        return unknown(f"{name} adds newer GPU drivers to its kernel {own.kernel}", ASSUMED), f"kernel of {name}"
    lacking = [gpu for gpu, first in firsts.items() if not reaches(own, first)]
    if not lacking:
        return known(_release(own.kernel), ASSUMED), f"kernel {own.kernel} of {name}"
    serving = next((row for row in rows if all(reaches(row, first) for first in firsts.values())), None)
    if serving is None:
        return known(_release(rows[-1].kernel), SOURCE), ""
    package = f"{serving.package} of {serving.repository}" if serving.repository else serving.package
    why = f"{name}'s {own.kernel} does not support {' and '.join(lacking)}"
    return known(_release(serving.kernel), ASSUMED), f"kernel {serving.kernel} of {package} ({why})"


def _release(kernel: str) -> str:
    return kernel if kernel.count(".") > 1 else f"{kernel}.0"


def _processor(platform: str) -> str:
    system, _, processor = platform.lower().rpartition("/")
    processor = processor.removeprefix("linux-")
    if system not in ("", "linux") or processor not in _PROCESSORS:
        raise InputError(
            f"--platform {platform!r}: gpudoctor checks Linux on x86-64 and aarch64; write linux/amd64 or linux/arm64"
        )
    return _PROCESSORS[processor]


def _container(kind: str) -> Fact[str]:
    if kind == "none":
        return absent(SOURCE)
    if kind not in KINDS:
        raise InputError(f"--container {kind!r}: choose from none, {', '.join(KINDS)}")
    return known(kind, SOURCE)


def described_log(path: str, matrix: Matrix) -> Fact[KernelLog]:
    """The kernel log in a file, in any form that `dmesg`, the journal or syslog writes. Raises InputError."""
    file, source = (STDIN, "stdin") if path == "-" else (path, path)
    content = read_input(file, _LOG_LIMIT, "; give the end of it", name=f"--kernel-log {path}", pipes=True)
    return known(log_of_text(content.decode("utf-8", "replace"), matrix.tables.log_patterns, source), source)
