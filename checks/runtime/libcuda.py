"""Which libcuda is loaded in place of the driver's own (GPD302, GPD303, GPD309)."""

from __future__ import annotations

import re

from gpudoctor.check import Verdicts, check
from gpudoctor.finding import Device, Evidence, Finding, Fix, NotJudged, by_hand, gpu_subject, together
from gpudoctor.frameworks.torch.shadowed_libraries import library_evidence, out_of_the_cache, without_folder
from gpudoctor.machine import Library, LibraryKind, NvidiaApi
from gpudoctor.situation import Situation
from gpudoctor.situation.nvidia_driver import driver_verdict, outdated_compat

_LIBCUDA = "libcuda.so.1"
_DRIVERS_OWN = f"the driver's own {_LIBCUDA}"


@check("GPD302", "cuda-compat-on-geforce", "runtime")
def cuda_compat_on_geforce(situation: Situation) -> Verdicts:
    """The cuda-compat libraries are loaded on a GPU that may not use them.

    ## Why it matters
    Forward compatibility (a newer libcuda on an older kernel driver) works on data-centre GPUs, some workstation GPUs
    and Jetson. On others CUDA fails with 804, "forward compatibility was attempted on non supported HW", or 803.

    ## How it is judged
    The first libcuda.so.1 on the load path is cuda-compat's, and a usable GPU is a GeForce or TITAN. Certain if the
    driver itself answered 803 or 804 (804 has no other cause, wherever the library lies). NVIDIA does not publish
    which workstation GPUs may use it, so the files decide nothing about those. Libraries that are older than the
    kernel module serve no GPU: that is driver-lib-mismatch.

    ## Fix safety
    Removes one folder from LD_LIBRARY_PATH for this process; nothing is deleted. If the driver itself is too old for
    this torch, the fix also includes a newer driver or another build.
    """
    library, answer = situation.machine.load_path.first(_LIBCUDA), situation.machine.nvidia.cuda.value
    if library is None or library.kind != "compat":
        library = _named_by_error("compat", answer, 804)
    if library is None or situation.on_jetson:
        return
    if outdated_compat(situation.machine) and answer is None:
        if situation.usable_of("nvidia"):
            yield _outdated(situation, library)
        return
    refused = answer is not None and answer.status in (803, 804)
    gpus = tuple(gpu for gpu in situation.usable_of("nvidia") if not gpu.datacenter)
    if not gpus or (answer is not None and not refused):
        return
    consumer = tuple(gpu for gpu in gpus if re.search(r"GeForce|TITAN", gpu.name, re.IGNORECASE))
    if not consumer and not refused:
        yield NotJudged(why=f"whether {gpus[0].name} may use cuda-compat is not known", matters=True)
        return
    gpu = (consumer or gpus)[0]
    yield Finding(
        severity="error",
        message=f"cuda-compat's libcuda{f' {library.version}' if library.version else ''} is loaded instead of the "
        f"driver's, and {gpu.name} does not support that: CUDA fails with error 804.",
        saw=library.path,
        want=_DRIVERS_OWN,
        subject=gpu_subject(gpu),
        devices=tuple(map(Device.of, consumer or gpus)),
        evidence=(*library_evidence(situation, library), Evidence("gpu.name", gpu.name, gpu.source)),
        fixes=_without_compat(situation, library),
        refs=("CUDA compatibility guide, forward compatibility", "gpustack/gpustack#1254"),
        supersedes=("driver-too-old", "driver-lib-mismatch", "no-driver"),
    )


def _outdated(situation: Situation, library: Library) -> Finding:
    module = situation.machine.nvidia.module
    driver = module.value.version if module.value else ""
    return Finding(
        severity="error",
        message=f"cuda-compat's libcuda {library.version} is loaded, and the driver {driver} is newer: CUDA fails "
        "with error 803. cuda-compat is for drivers that are older than itself.",
        saw=library.path,
        want=_DRIVERS_OWN,
        subject=_LIBCUDA,
        slug="driver-lib-mismatch",
        confidence="likely",
        evidence=(*library_evidence(situation, library), Evidence("nvidia.module", driver, module.source)),
        fixes=(_off_the_path(situation, library),),
        refs=("CUDA compatibility guide, forward compatibility", "llm-d/llm-d#706"),
        supersedes=("driver-too-old", "no-driver"),
    )


def _without_compat(situation: Situation, library: Library) -> tuple[Fix, ...]:
    """Without cuda-compat the driver itself must run this torch; if it cannot, the fix includes that too."""
    removal = _off_the_path(situation, library)
    cuda = situation.torch.cuda if situation.torch and situation.built_for == "nvidia" else None
    if cuda is None or driver_verdict(situation, cuda) != "too-old":
        return (removal,)
    from gpudoctor.frameworks.torch.driver_or_builds import builds_for_this_driver, driver_or_builds

    others = driver_or_builds(situation, situation.matrix.nvidia.floor(cuda) or "", builds_for_this_driver(situation))
    return tuple(together(removal, fix) for fix in others) or (removal,)


@check("GPD303", "libcuda-stub", "runtime")
def libcuda_stub(situation: Situation) -> Verdicts:
    """The toolkit's stub libcuda is loaded instead of the driver's.

    ## Why it matters
    The stub exists for linking on machines without a driver. Loaded at run time it fails with "CUDA driver is a stub
    library" (error 34), and torch finds no GPU.

    ## How it is judged
    The first libcuda.so.1 on the load path lies in a folder of stubs, and an NVIDIA GPU could be used. At level
    driver the check also reports CUDA's own answer (34).

    ## Fix safety
    Removes one folder from LD_LIBRARY_PATH for this process; nothing is deleted.
    """
    library = situation.machine.load_path.first(_LIBCUDA)
    if library is None or library.kind != "stub":
        library = _named_by_error("stub", situation.machine.nvidia.cuda.value, 34)
    if library is None or not situation.usable_of("nvidia"):
        return
    yield Finding(
        severity="error",
        message=f"{library.path} is the CUDA toolkit's stub: it is loaded instead of the driver's libcuda and cannot "
        "run anything.",
        saw=library.path,
        want=_DRIVERS_OWN,
        subject=_LIBCUDA,
        evidence=library_evidence(situation, library),
        fixes=(_off_the_path(situation, library),),
        supersedes=("driver-too-old", "no-driver"),
    )


def _named_by_error(kind: LibraryKind, answer: NvidiaApi | None, status: int) -> Library | None:
    """The libcuda that CUDA's own error points to, although the load path did not show it as such."""
    if answer is None or answer.status != status:
        return None
    return Library(name=_LIBCUDA, path=answer.library or _LIBCUDA, kind=kind, via="the loader")


def _off_the_path(situation: Situation, library: Library) -> Fix:
    if library.via == "the loader":
        what = "cuda-compat" if library.kind == "compat" else "the stubs folder of the CUDA toolkit"
        text = f"Remove {what} from the load path (LD_LIBRARY_PATH, /etc/ld.so.conf.d, an RPATH of the program)."
        return by_hand("Use the driver's own libcuda", text)
    return without_folder(situation, library, otherwise=out_of_the_cache(library))


@check("GPD309", "wsl-libcuda-symlink", "runtime")
def wsl_libcuda_symlink(situation: Situation) -> Verdicts:
    """Under WSL libcuda.so.1 is a file where ldconfig expects a link.

    ## Why it matters
    ldconfig prints "/usr/lib/wsl/lib/libcuda.so.1 is not a symbolic link". The message is harmless.

    ## How it is judged
    The libcuda.so.1 of /usr/lib/wsl/lib is a regular file beside other copies of itself.

    ## Fix safety
    There is nothing to fix.
    """
    library = situation.machine.load_path.first(_LIBCUDA)
    copies = [
        found for found in situation.machine.load_path.found if found.kind == "wsl" and found.name == "libcuda.so"
    ]
    plain = library is not None and library.kind == "wsl" and library.path.endswith("/libcuda.so.1")
    if not situation.in_wsl or library is None or not plain or not copies:
        return
    if copies[0].path == library.path:
        return
    yield Finding(
        severity="note",
        message=f"{library.path} is a file, not a link. ldconfig warns about it, which is harmless.",
        saw="a regular file",
        subject=_LIBCUDA,
        confidence="possible",
        evidence=(Evidence(library.name, "regular file", library.path),),
        refs=("microsoft/WSL#5663",),
    )
