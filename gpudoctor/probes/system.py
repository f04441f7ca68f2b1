"""The system as a whole: kernel, distribution, processor, memory, and where it runs."""

from __future__ import annotations

import posixpath
import re

from msgspec.structs import replace

from gpudoctor.host import Host
from gpudoctor.host.user_namespace import UID_MAP, maps_everybody
from gpudoctor.machine import Fact, Os, System, User, absent, known, unknown
from gpudoctor.probes.batch_job import probe_job
from gpudoctor.probes.container import probe_container
from gpudoctor.probes.loader_cache import default_folders
from gpudoctor.probes.mounts import mount_at, read_mounts
from gpudoctor.probes.processor import read_arch, read_cpu_flags
from gpudoctor.probes.search_path import on_path
from gpudoctor.probes.secure_boot import probe_lockdown, probe_secure_boot
from gpudoctor.probes.virtual_machine import probe_virtual_machine
from gpudoctor.probes.wsl_jetson import probe_jetson, probe_wsl

_OS_RELEASES = ("/etc/os-release", "/usr/lib/os-release")
_GLIBC = "libc.so.6"
_MUSL_LOADER = "/lib/ld-musl-{arch}.so.1"
_GPU_GROUPS = ("render", "video")
_COMPILERS = ("CC", "CXX")
_NAMES_OF_USERS = ("LOGNAME", "USER", "LNAME", "USERNAME")
"""Where Python's getpass looks before it asks for the account."""
_FOR_KERNELS = ("TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR")
_LIBRARIES = ("NUMBA_CUDA_DRIVER",)
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}

# Options of the kernel command line that affect GPUs, their modules, the bus or the IOMMU.
_OPTION_NAMES = frozenset((
    "efi", "initcall_blacklist", "intremap", "iommu", "kaslr", "lockdown", "mem_encrypt", "module_blacklist",
    "nokaslr", "nomodeset", "nomodule", "numa_balancing", "pci", "pcie_acs_override", "pcie_aspm",
    "pcie_ports", "rdblacklist", "swiotlb", "video",
))  # fmt: skip
_OPTION_PREFIXES = (
    "amd_iommu", "amdgpu.", "amdttm.", "drm.", "intel_iommu", "iommu.", "modprobe.", "module.", "nouveau.",
    "nova_core.", "nvidia", "radeon.", "rd.driver.", "ttm.", "vfio",
)  # fmt: skip


def probe_system(host: Host) -> System:
    """Everything in `machine.System`; each field fails separately."""
    kernel = _kernel(host)
    arch = read_arch(host)
    flags = read_cpu_flags(host)
    wsl = probe_wsl(host, kernel)
    memory, hugepages = _memory(host)
    numbers = _group_numbers(host)
    return System(
        kernel=kernel,
        arch=arch,
        os=_distribution(host, kernel.value or ""),
        libc=_c_library(host, arch.value),
        cpu_flags=flags,
        memory=memory,
        shm=_shm(host, memory),
        hugepages=hugepages,
        secure_boot=probe_secure_boot(host),
        lockdown=probe_lockdown(host),
        kernel_options=_kernel_options(host),
        wsl=wsl,
        jetson=probe_jetson(host, kernel, arch),
        virtual_machine=probe_virtual_machine(host, flags, wsl),
        container=probe_container(host),
        job=probe_job(host),
        user=_user(host, numbers),
        suspends=_suspends(host),
        groups={name: numbers[name] for name in _GPU_GROUPS if name in numbers},
        missing_compilers=_missing_compilers(host),
        closed_folders=_closed_folders(host),
        missing_files=_missing_files(host),
    )


def _missing_compilers(host: Host) -> tuple[str, ...]:
    """A recording does not hold what is on PATH, and a relative path is one from the folder of a program. Triton and
    torch.compile take the whole value for a name: "ccache gcc" is none."""
    named = (host.environ.get(name, "") for name in _COMPILERS) if host.live else ()
    plain = (name for name in dict.fromkeys(named) if name and re.fullmatch(r"[^\s/]+(\s.*)?|/.+", name))
    return tuple(name for name in plain if not on_path(host, name))


def _closed_folders(host: Host) -> tuple[str, ...]:
    """The nearest folder that is there decides whether the others can be made."""
    named = (host.environ.get(name, "") for name in _FOR_KERNELS) if host.live else ()
    return tuple(path for path in dict.fromkeys(named) if path.startswith("/") and not _may_be_made(host, path))


def _missing_files(host: Host) -> tuple[str, ...]:
    named = (host.environ.get(name, "") for name in _LIBRARIES) if host.live else ()
    return tuple(path for path in dict.fromkeys(named) if path.startswith("/") and host.stat(path).absent)


def _may_be_made(host: Host, path: str) -> bool:
    # Nobody makes a folder below /proc, whatever its rights say.
    while (found := host.may_write(path)).absent and path != "/":
        path = posixpath.dirname(path)
    return found.value is not False and path != "/proc"


def _kernel(host: Host) -> Fact[str]:
    uname = host.uname()
    if uname.value is not None:
        return known(uname.value.release, uname.source)
    stated = host.text("/proc/sys/kernel/osrelease", 4096)
    if stated.value:
        return stated
    version = host.text("/proc/version", 4096)
    match = re.match(r"Linux version (\S+)", version.value or "")
    return known(match[1], version.source) if match else unknown(uname.why, uname.source)


def _kernel_options(host: Host) -> Fact[tuple[str, ...]]:
    """What follows `--` is for the first process, not for the kernel."""
    text = host.text("/proc/cmdline", 1 << 16)
    if text.value is None:
        return text.unanswered()
    options = []
    for option in text.value.split():
        if option == "--":
            break
        name = option.partition("=")[0].replace("-", "_")
        if name in _OPTION_NAMES or name.startswith(_OPTION_PREFIXES):
            options.append(option)
    return known(tuple(options), text.source)


# --- distribution ------------------------------------------------------------------------------------


def _distribution(host: Host, kernel: str) -> Fact[Os]:
    texts = [host.text(path, 1 << 16) for path in _OS_RELEASES]
    for text in texts:
        fields = _assignments(text.value or "")
        if kernel.endswith("+truenas") and fields.get("ID") == "debian":  # it leaves Debian's own file there
            fields |= {"ID": "truenas", "ID_LIKE": "debian", "PRETTY_NAME": "TrueNAS"}
            fields["VERSION_ID"] = (host.text("/etc/version", 256).value or "").strip()
        if fields.get("ID") or fields.get("NAME"):
            return known(_os(fields, _image(host, fields)), text.source)
    if host.live:
        return _distribution_of_package()
    unread = next((text for text in texts if not text.known), None)
    if unread is None:
        return unknown("it names no distribution", _OS_RELEASES[0])
    return unread.unanswered()


def _os(fields: dict[str, str], image: str) -> Os:
    codenames = (fields.get(f"{prefix}_CODENAME", "") for prefix in ("UBUNTU", "DEBIAN", "VERSION"))
    return Os(
        id=fields.get("ID", "").lower(),
        version=fields.get("VERSION_ID", ""),
        like=tuple(fields.get("ID_LIKE", "").lower().split()),
        name=fields.get("PRETTY_NAME") or fields.get("NAME", ""),
        codename=next((name.lower() for name in codenames if name), ""),
        image=image,
    )


def _image(host: Host, fields: dict[str, str]) -> str:
    """What replaces the root as a whole; "" on a system that a package manager changes."""
    if host.exists("/run/ostree-booted") or host.exists("/ostree/repo/config"):
        return "rpm-ostree"
    appliance = {"steamos": "SteamOS", "truenas": "TrueNAS"}.get(fields.get("ID", "").lower())
    if appliance is not None:
        return appliance
    return "transactional-update" if host.exists("/usr/sbin/transactional-update") else ""


def _assignments(text: str) -> dict[str, str]:
    """os-release(5): NAME=value, value quoted as in a shell."""
    fields = {}
    for line in text.splitlines():
        name, equals, value = line.strip().partition("=")
        if equals and name.isidentifier() and name == name.upper():
            quoted = len(value) > 1 and value[0] in "'\"" and value[-1] == value[0]
            fields[name] = _unescaped(value[1:-1]) if quoted else value.strip()
    return fields


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text) if "\\" in text else text


def _distribution_of_package() -> Fact[Os]:
    try:
        import distro

        like = tuple(distro.like().split())
        found = Os(id=distro.id(), version=distro.version(), like=like, name=distro.name(pretty=True))
    except Exception as error:  # it runs lsb_release and reads files of its own
        return unknown(f"distro: {error}", "distro")
    return known(found, "distro") if found.id else unknown("no os-release", _OS_RELEASES[0])


# --- memory ------------------------------------------------------------------------------------------


def _memory(host: Host) -> tuple[Fact[int], Fact[int]]:
    """The memory, and how much of it is reserved as huge pages."""
    text = host.text("/proc/meminfo", 1 << 16)
    lines = (line.partition(":") for line in (text.value or "").splitlines())
    stated = {name: value.split() for name, _, value in lines}
    total, pages, size = (stated.get(name, []) for name in ("MemTotal", "HugePages_Total", "Hugepagesize"))
    hugepages = unknown(text.why or "not stated", text.source)
    if _is_count(pages[:1]) and _is_kilobytes(size):
        hugepages = known(int(pages[0]) * int(size[0]) * 1024, text.source)
    if _is_kilobytes(total):
        return known(int(total[0]) * 1024, text.source), hugepages
    if host.live:
        try:
            import psutil

            return known(int(psutil.virtual_memory().total), "psutil"), hugepages
        except Exception as error:  # it reads the same kind of files
            return unknown(f"psutil: {error}", "psutil"), hugepages
    return unknown(text.why or "no MemTotal", text.source), hugepages


def _is_kilobytes(words: list[str]) -> bool:
    return len(words) == 2 and words[1] == "kB" and _is_count(words[:1])


def _is_count(words: list[str]) -> bool:
    return len(words) == 1 and words[0].isdecimal() and words[0].isascii() and len(words[0]) <= 15


def _shm(host: Host, memory: Fact[int]) -> Fact[int]:
    """Size of the file system at /dev/shm; for a recording from its mount table."""
    if host.live:
        return host.capacity("/dev/shm")
    mounts = read_mounts(host)
    mount = mount_at(mounts.value or (), "/dev/shm")
    if mount is None and mounts.known:
        return absent(mounts.source, "nothing is mounted at /dev/shm")
    if mount is None:
        return unknown(mounts.why, mounts.source)
    stated = next((option[5:] for option in mount.options if option.startswith("size=")), "50%")
    match = re.fullmatch(r"(\d{1,15})([kmgt]?|%)", stated.lower())
    if match is None:
        return unknown(f"size={stated} cannot be read", mounts.source)
    number, unit = int(match[1]), match[2]
    if unit != "%" and number:
        return known(number * _UNITS[unit], mounts.source)
    # A share of the memory; a size of 0 is no limit.
    if memory.value is None:
        return unknown("a share of the memory, whose size is unknown", mounts.source)
    return known(memory.value * number // 100 if unit == "%" else memory.value, mounts.source)


# --- user, groups, suspends --------------------------------------------------------------------------


def _group_numbers(host: Host) -> dict[str, int]:
    numbers: dict[str, int] = {}
    for line in (host.text("/etc/group").value or "").splitlines():
        fields = line.split(":")
        if len(fields) >= 3 and fields[2].isdecimal() and len(fields[2]) <= 10:
            numbers.setdefault(fields[0], int(fields[2]))
    return numbers


def _user(host: Host, numbers: dict[str, int]) -> User:
    """Groups above 999 stay without a name: a person's own group is named like the person."""
    user = host.user()
    nameless = host.live and not any(map(host.environ.get, _NAMES_OF_USERS)) and not _has_account(user.uid)
    names = {number: name for name, number in reversed(numbers.items()) if number < 1000 or name in _GPU_GROUPS}
    groups = tuple(names[gid] for gid in user.gids if gid in names)
    ids = host.text(UID_MAP, 4096).value
    in_namespace = ids is not None and not maps_everybody(ids)
    return replace(user, groups=groups, in_namespace=in_namespace, nameless=nameless)


def _has_account(uid: int) -> bool:
    """Accounts of a directory service (LDAP) are in no file."""
    import pwd

    try:
        return bool(pwd.getpwuid(uid))
    except KeyError:
        return False


def _suspends(host: Host) -> Fact[int]:
    for path in ("/sys/power/suspend_stats/success", "/sys/kernel/debug/suspend_stats"):
        text = host.text(path, 4096)
        first = (text.value or "").removeprefix("success:").split(maxsplit=1)[:1]
        if first and first[0].isdecimal() and len(first[0]) < 10:
            return known(int(first[0]), path)
    log = host.kernel_messages()
    if log.value is not None:
        return known(log.value.count(b"PM: suspend exit"), log.source)
    return unknown("neither /sys/power/suspend_stats nor the kernel log tells", "/sys/power")


def _c_library(host: Host, arch: str | None) -> Fact[str]:
    """ "glibc 2.31" or "musl". glibc comes first: distributions also have a package of musl. In a recording the
    symbol versions of its libc.so.6 tell."""
    answer = host.c_library()
    if answer.known:
        return answer
    from gpudoctor.frameworks.torch.probes.libraries import read_elf  # a running system has answered by now

    for folder in default_folders(arch):
        path = f"{folder}/{_GLIBC}"
        heads = read_elf(host, path)
        if heads is not None and heads.defines_glibc:
            return known(f"glibc {heads.defines_glibc}", path)
    loader = _MUSL_LOADER.format(arch=arch or "x86_64")
    if host.exists(loader):
        return known("musl", loader)
    return unknown(f"neither the versions of a {_GLIBC} nor musl's loader could be read", default_folders(arch)[0])
