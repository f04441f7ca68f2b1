"""Visibility variables, MIG slices and busy GPUs (GPD210 to GPD212, GPD215)."""

from __future__ import annotations

import re

from gpudoctor.check import Verdicts, check
from gpudoctor.finding import (
    Evidence,
    Finding,
    Fix,
    NotJudged,
    SetVariable,
    Severity,
    UnsetVariable,
    by_hand,
    gpu_subject,
    unset,
)
from gpudoctor.machine import Gpu, Vendor
from gpudoctor.situation import Situation
from gpudoctor.situation.batch_job import cpu_task
from gpudoctor.situation.busy_gpus import why_busy
from gpudoctor.situation.circumstances import told_circumstances
from gpudoctor.situation.gpu_groups import called, finding, group_by
from gpudoctor.situation.gpu_reset import awaits_mig, reset
from gpudoctor.situation.usable_gpus import runtime_order
from gpudoctor.situation.visibility import Selection, select, visibility_variables

_ENDS = ("-1", "NoDevFiles")
"""Entries that people use to end a list on purpose."""

_ORDERS = ("FASTEST_FIRST", "PCI_BUS_ID")
"""All values of CUDA_DEVICE_ORDER: an empty one, small letters and spaces are wrong, too."""

_SLICE = r"MIG-[\w-]"
_NAME_A_SLICE = "Take the name of a slice (MIG-...) from `nvidia-smi -L` and put it into CUDA_VISIBLE_DEVICES."


@check("GPD210", "cuda-visible-devices", "access")
def cuda_visible_devices(situation: Situation) -> Verdicts:
    """A visibility variable hides every GPU, or names one that is not there.

    ## Why it matters
    CUDA_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES and ROCR_VISIBLE_DEVICES decide which GPUs a program sees. CUDA stops
    reading at the first entry that names no GPU, so all entries after it are hidden too.

    ## How it is judged
    The check reads the variables as the runtimes do. An empty value hides all GPUs from CUDA and ROCr; HIP treats
    it as unset. HIP counts only the GPUs that ROCr left. A GPU that is named to CUDA twice hides all GPUs. A subset
    on purpose is not a problem. CUDA_DEVICE_ORDER has two values, and with any other one CUDA does not start. With
    MIG on, only a value that hides everything counts. In a task of a batch system or of Ray, an empty value marks a
    CPU task: a note.

    ## Fix safety
    The variable is changed for the examined environment only. A process that should see no GPU needs no fix.
    """
    order = situation.variable("CUDA_DEVICE_ORDER")
    if order is not None and order not in _ORDERS and situation.framework_vendor != "amd":
        yield from _no_order(situation, order)
    vendors: tuple[Vendor, ...] = (situation.framework_vendor,) if situation.framework_vendor else ("nvidia", "amd")
    for vendor in vendors:
        remaining = gpus = runtime_order(situation.machine, vendor)
        divided, narrowed = any(gpu.asked.mig for gpu in gpus), ""
        for name, value in visibility_variables(situation.machine.variables, vendor):
            selection = select(value, remaining)
            wrong = tuple(entry for entry in selection.invalid if entry not in _ENDS)
            if divided and (selection.gpus or any(re.match(_SLICE, entry) for entry in wrong)):
                break  # only NVML knows which slices the entries mean
            if remaining and (not selection.gpus or wrong):
                yield _hidden(situation, name, value, remaining, selection, narrowed)
                break
            narrowed = f"{name}={value}" if len(selection.gpus) < len(remaining) else narrowed
            remaining = selection.gpus
    empty = [name for name in ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES") if situation.variable(name) == ""]
    if situation.framework_vendor == "amd" and empty and not cpu_task(situation):
        yield Finding(
            severity="note",
            message=f"{empty[0]} is empty: HIP treats that as unset and shows every GPU, but newer torch counts "
            "none (torch.cuda.device_count()).",
            saw=f"{empty[0]}=",
            subject=empty[0],
            evidence=tuple(Evidence(f"variables.{name}", "", "environment") for name in empty),
            fixes=(Fix("Unset it", tuple(UnsetVariable(name) for name in empty)),),
            refs=("pytorch/pytorch torch/cuda/__init__.py, _parse_visible_devices",),
        )


def _no_order(situation: Situation, order: str) -> Verdicts:
    gpus = runtime_order(situation.machine, "nvidia")
    if not gpus:
        return
    yield Finding(
        severity="error" if _is_concerned(situation) else "note",
        message=f"CUDA_DEVICE_ORDER={order}: CUDA knows {' and '.join(_ORDERS)}, and does not start (error 101).",
        saw=f"CUDA_DEVICE_ORDER={order}",
        want=f"unset, {' or '.join(_ORDERS)}",
        subject="CUDA_DEVICE_ORDER",
        evidence=(Evidence("variables.CUDA_DEVICE_ORDER", order, "environment"),),
        fixes=(unset("CUDA_DEVICE_ORDER", "then the fastest GPU is first"),),
        refs=("driver 580.159.04 on an H100, with eleven values",),
        supersedes=("no-gpu", "no-driver"),
    )


def _is_concerned(situation: Situation) -> bool:
    """Whether a program needs the GPUs. An error that somebody saw, or a complaint that the CPU computes, is of one,
    whether or not it is known which."""
    missed = any(row.slug == "program-on-cpu" for row, _ in told_circumstances(situation))
    return missed or situation.framework_vendor is not None or bool(situation.machine.errors)


def _hidden(
    situation: Situation, name: str, value: str, gpus: tuple[Gpu, ...], selection: Selection, narrowed: str
) -> Finding:
    """A variable that selects none of the GPUs, or not all that it names; `narrowed` is what left only these GPUs."""
    quoted = re.search("[\"']", value) is not None
    entries = [entry.strip(" \"'") for entry in value.split(",")]
    wrong = [entry for entry in selection.invalid if entry not in _ENDS]
    on_purpose = cpu_task(situation) and not wrong
    if on_purpose:
        message = f"{name} hides every GPU: this is a CPU task of the batch system."
    elif selection.repeated:
        message = f"{name}={value} names {selection.repeated} twice, so CUDA shows no GPU at all."
    elif wrong:
        seen = f" only {len(selection.gpus)} of them can be seen."
        hidden = " every GPU is hidden." if not selection.gpus else seen if len(gpus) > 1 else " it is not counted."
        one, place = len(gpus) == 1, f"that {narrowed} leaves" if narrowed else "here"
        numbers = f"the only GPU {place} is number 0" if one else f"the GPUs {place} are 0 to {len(gpus) - 1}"
        named = f"names {wrong[0] or 'nothing'}, but {numbers}"
        message = f"{name}={value} {'has quotation marks in its value' if quoted else named}:{hidden}"
    else:
        message = f"{name}={value} hides every GPU of this machine."
    existing = (entry for entry in entries if re.fullmatch("[0-9]{1,9}", entry) and int(entry) < len(gpus))
    kept = ",".join(dict.fromkeys(existing))
    keep = Fix(f"Set {name}={kept}", (SetVariable(name, kept, why="names only existing GPUs, each once"),))
    show_all = unset(name, f"then {f'all {len(gpus)} GPUs' if len(gpus) > 1 else 'the GPU'} can be seen")
    return Finding(
        severity="note" if on_purpose or not _is_concerned(situation) else "error",
        message=message,
        saw=f"{name}={value}",
        want=f"unset, or numbers from 0 to {len(gpus) - 1}" if len(gpus) > 1 else "unset, or 0",
        subject=name,
        evidence=(
            Evidence(f"variables.{name}", value, "environment"),
            Evidence("gpus", ", ".join(gpu.name for gpu in gpus), gpus[0].source),
        ),
        fixes=() if on_purpose else (keep, show_all) if kept else (show_all,),
        supersedes=("no-gpu", "no-driver"),
    )


@check("GPD211", "mig-confusion", "access")
def mig_confusion(situation: Situation) -> Verdicts:
    """MIG: the GPU has no slice, or another slice than expected is used.

    ## Why it matters
    With MIG on, programs run only on slices: one per process, chosen by CUDA_VISIBLE_DEVICES=MIG-...

    ## How it is judged
    At level driver, the check reads what NVML lists: MIG on and no slice. A variable that names a missing slice is
    the same problem. Beside another usable GPU it is a note. Slices themselves are healthy; several of them without a
    variable that names one are a note. So is a mode that was changed and waits for a reset of the GPU: until then
    the old one counts.

    ## Fix safety
    Creating slices or switching MIG off needs root, and no program may be using the GPU.
    """
    divided = [gpu for gpu in situation.machine.of_vendor("nvidia") if gpu.asked.mig]
    yield from _without_slices(situation, divided)
    yield from _waiting(situation)
    slices = [mig for gpu in divided for mig in gpu.asked.mig_devices]
    value = situation.variable("CUDA_VISIBLE_DEVICES")
    first = (value or "").split(",")[0].strip()
    seen = (Evidence("nvml.mig_devices", str(len(slices)), "NVML"),)
    if value is None and len(slices) > 1 and situation.framework_vendor != "amd":
        yield Finding(
            severity="note",
            message=f"There are {len(slices)} MIG slices. A program sees only one: the first, unless "
            "CUDA_VISIBLE_DEVICES names another.",
            saw=f"{len(slices)} slices, CUDA_VISIBLE_DEVICES not set",
            subject="CUDA_VISIBLE_DEVICES",
            evidence=seen,
            fixes=(by_hand("To use another slice, name it", _NAME_A_SLICE),),
        )
        return
    if not first.startswith("MIG-") or not slices or not all(mig.uuid for mig in slices):
        return
    if any(mig.uuid.startswith(first) for mig in slices) or first.startswith("MIG-GPU-"):
        return
    yield Finding(
        severity="error",
        message="CUDA_VISIBLE_DEVICES names a MIG slice that does not exist; recreated slices get new names.",
        saw="a MIG name that no slice has",
        want=f"one of {len(slices)} slices",
        subject="CUDA_VISIBLE_DEVICES",
        evidence=seen,
        fixes=(
            by_hand("Name an existing slice", _NAME_A_SLICE),
            unset("CUDA_VISIBLE_DEVICES", "CUDA takes the first slice"),
        ),
    )


def _without_slices(situation: Situation, divided: list[Gpu]) -> Verdicts:
    """The usable GPUs with MIG on that nobody has divided."""
    usable = situation.usable_of("nvidia")
    bare = [gpu for gpu in divided if not gpu.asked.mig_devices and gpu in usable]
    for gpu in bare:
        index = gpu.asked.index
        make = (
            f"As root: `nvidia-smi mig -i {index} -lgip` lists the profiles, `nvidia-smi mig -i {index} -cgi PROFILE "
            "-C` creates slices; then choose one with CUDA_VISIBLE_DEVICES=MIG-... (`nvidia-smi -L`)."
        )
        off = f"As root, with no program on the GPU: `nvidia-smi -i {index} -mig 0` (some GPUs need a reset)."
        create, switch_off = by_hand("Create slices", make, "root"), by_hand("Switch MIG off", off, "root")
        yield finding(
            _severity(situation, bare),
            (gpu,),
            message=f"MIG mode is on for {gpu.name}, but it has no slices: no program can use it.",
            saw="MIG on, no slice",
            want="a slice, or MIG off",
            evidence=(Evidence("nvml.mig", "on, no MIG device", "NVML"),),
            fixes=(reset(gpu), create) if awaits_mig(gpu) else (create, switch_off),
        )


def _waiting(situation: Situation) -> Verdicts:
    """Usable GPUs whose MIG mode was changed, and that have not been reset since."""
    usable = situation.usable_of("nvidia")
    changed = [gpu for gpu in usable if awaits_mig(gpu) and (gpu.asked.mig_devices or not gpu.asked.mig)]
    for on, gpus in group_by(changed, lambda gpu: bool(gpu.asked.mig_pending)).items():
        till_then = "programs use the whole GPU" if on else "programs use its slices"
        yield finding(
            "note",
            gpus,
            message=f"MIG mode of {called(gpus)} was switched {'on' if on else 'off'}, and waits for a reset: until "
            f"then {till_then}.",
            saw=f"MIG {'off' if on else 'on'}, {'on' if on else 'off'} after a reset",
            evidence=(Evidence("nvml.mig_pending", str(on).lower(), "NVML"),),
            fixes=(reset(*gpus),),
        )


@check("GPD212", "gpu-busy-or-exclusive", "access")
def gpu_busy_or_exclusive(situation: Situation) -> Verdicts:
    """Another program has the GPU for itself, or the GPU's memory is full.

    ## Why it matters
    New programs on the GPU fail with "all CUDA-capable devices are busy or unavailable" or run out of memory. That
    says nothing about the environment.

    ## How it is judged
    At level driver, the check reads compute mode, processes and memory from NVML. A busy GPU is not a problem; no
    kernels run on it meanwhile.

    ## Fix safety
    There is nothing to fix.
    """
    for gpu in situation.usable:
        why = why_busy(gpu)
        if why and gpu.asked.compute_mode != "prohibited":
            yield NotJudged(why=f"{gpu_subject(gpu)}: {why}")


@check("GPD215", "compute-mode-prohibited", "access")
def compute_mode_prohibited(situation: Situation) -> Verdicts:
    """A GPU's compute mode forbids every program.

    ## Why it matters
    The driver lists the GPU, but every program on it fails with "all CUDA-capable devices are busy or unavailable".
    The mode stays until someone sets another, or the driver is loaded again.

    ## How it is judged
    The check reads the compute mode from NVML or nvidia-smi. Beside a GPU that accepts programs it is a note.

    ## Fix safety
    The mode is set for this GPU only. Somebody may have closed the GPU to programs on purpose.
    """
    closed = [gpu for gpu in situation.usable_of("nvidia") if gpu.asked.compute_mode == "prohibited"]
    for gpu in closed:
        index = gpu.asked.index
        text = f"As root: `nvidia-smi -i {index} -c DEFAULT`, unless somebody closed the GPU to programs on purpose."
        yield finding(
            _severity(situation, closed),
            (gpu,),
            message=f"The compute mode of {gpu.name} is Prohibited: no program may compute on it.",
            saw="compute mode Prohibited",
            want="compute mode Default",
            evidence=(Evidence("nvml.compute_mode", "prohibited", "NVML"),),
            fixes=(by_hand("Set the compute mode to Default", text, "root"),),
            supersedes=("no-driver",),
        )


def _severity(situation: Situation, gpus: list[Gpu]) -> Severity:
    """How much it weighs that programs cannot use these GPUs: a note where another GPU of NVIDIA's is usable."""
    left = len(situation.usable_of("nvidia")) - len(gpus)
    return "note" if left or situation.framework_vendor == "amd" else "error"
