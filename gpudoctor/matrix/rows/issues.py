"""Known issues, and the texts that tell of a fault: lines of the kernel log, error messages."""

from typing import Literal

from msgspec import Struct

from gpudoctor.matrix.rows.row import Row


class IssueVariable(Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    value: str | None = None
    """None: set to anything."""


class IssuePackage(Struct, frozen=True, forbid_unknown_fields=True):
    package: str
    specifier: str | None = None


class PatchedKernel(Struct, frozen=True, forbid_unknown_fields=True):
    """Kernels of a distribution that have a fix before the upstream release does."""

    flavour: str
    """The end of their release: "oem" of 6.14.0-1018-oem."""
    kernel: str
    """PEP 440 specifier of those that have it."""


class IssueCondition(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """All given fields must match; versions are PEP 440 specifiers."""

    vendor: Literal["nvidia", "amd"] | None = None
    gfx: tuple[str, ...] = ()
    sm: tuple[str, ...] = ()
    torch: str | None = None
    cuda: str | None = None
    rocm: str | None = None
    kernel: str | None = None
    patched_kernels: tuple[PatchedKernel, ...] = ()
    """Kernels whose number `kernel` names, but which their distribution has patched."""
    driver: str | None = None
    """NVIDIA driver, or amdgpu-dkms version for AMD rows."""
    container: bool | None = None
    platform: str | None = None
    packages: tuple[IssuePackage, ...] = ()
    env: tuple[IssueVariable, ...] = ()
    min_gpus: int | None = None
    firmware: str | None = None
    """Version of the linux-firmware package (its date); counts if `loaded_firmware` cannot be compared."""
    loaded_firmware: dict[str, tuple[int, ...]] = {}
    """Versions of the firmware that the GPU runs: {mes: [0x83]}."""


class KnownIssue(Row, frozen=True, kw_only=True):
    """`trigger` facts: the condition is enough. workload: only some operations are affected, so it is a note until
    the symptom is seen. symptom: counts only with its log line or error text."""

    id: str
    slug: str = "known-issue"
    severity: Literal["error", "warning", "note"]
    trigger: Literal["facts", "workload", "symptom"]
    when: IssueCondition
    symptom: str
    workaround: str
    variables: dict[str, str] = {}
    """Variables of the workaround, if it is one."""
    install: dict[str, str] = {}
    """Packages of the workaround, with the specifier of their releases without the issue."""
    firmware: str = ""
    """The first release of linux-firmware without it."""
    kernel: str = ""
    """The first kernel without it."""
    log: str | None = None
    """id of a kernel-log pattern that is its symptom."""
    xid: int | None = None
    """Number of the Xid that is its symptom."""
    status: str = ""
    confidence: Literal["high", "medium", "low"] = "medium"


class LogPattern(Row, frozen=True, kw_only=True):
    """A meaningful line of the kernel log. `pattern` is a Python regular expression with the optional groups bdf, xid
    and detail."""

    id: str
    vendor: Literal["nvidia", "amd", "any"]
    pattern: str
    meaning: str
    slug: str | None = None
    needle: str = ""
    """Text that every match holds; computed when the YAML is read, nobody writes it."""
    workaround: str = ""
    """What helps most often, where only the log is known."""
    example: str
    """A real line that the pattern matches (checked at load)."""
    counterexamples: tuple[str, ...] = ()


class XidMeaning(Row, frozen=True, kw_only=True):
    xid: int
    meaning: str
    kind: Literal["hardware", "application", "driver", "information"]
    slug: str | None = None


class ErrorPattern(Row, frozen=True, kw_only=True):
    """An error text that tells its cause, as torch, the runtimes, their libraries or the loader print it. The first
    matching row wins, so exact texts come before general ones. `pattern` is searched for line by line."""

    id: str
    vendor: Literal["nvidia", "amd", "any"]
    """The vendor whose GPUs print it; torch for ROCm says "CUDA error" in places."""
    pattern: str
    unless: str = ""
    """A pattern; where a text of many lines matches it, the message tells nothing."""
    meaning: str
    slug: str
    also: tuple[str, ...] = ()
    """Slugs of other causes that print this text, likeliest first: the facts decide which of them is the cause."""
    needs_sm: int = 0
    """Compute capability, in digits, of the first GPUs that have what the message misses: on an older one that is the
    cause."""
    ask: str = ""
    """A question or a command whose answer decides between the causes."""
    stops: bool = False
    """With this cause nothing on the GPU computes."""
    about: Literal["gpu", "environment"] = "gpu"
    of_program: bool = False
    """In a message that a person saw it is about that program, which may ask for too much of a sound machine."""
    follows: bool = False
    """It is also printed after another failure of the same program, which then is its cause."""
    explains: tuple[str, ...] = ()
    """Ids of rows whose messages are no more than its effect, where both are printed."""
    of_import: bool = False
    """It counts where torch was imported; in what another program printed it may be about anything."""
    of_torch: bool = True
    """Whether torch may print it; what a program with libraries of its own prints, no build of torch mends."""
    framework: str = ""
    """The framework beside torch that prints it because a library is missing, or because it is a build for the CPU:
    its builds give the fix."""
    any_program: bool = False
    """Many programs print it, each with its own build for a GPU: the one that the text is about gives the fix."""
    severity: Literal["error", "warning", "note"] = "error"
    """Severity of a kernel that fails for this cause; a note names a text that explains no failure."""
    workaround: str
    apu: str = ""
    """What helps instead where the GPU is that of an AMD processor."""
    windows: str = ""
    """What helps instead on Windows."""
    mended_in_wsl: bool = False
    """Inside WSL it is mended there, and not with Windows' driver, whatever else the message may mean."""
    variables: dict[str, str] = {}
    """Variables of the workaround, if it is one."""
    needles: tuple[str, ...] = ()
    """Every match holds one of these texts; computed when the YAML is read, nobody writes it."""
    example: str
    """A real text that the pattern matches (checked at load)."""
    counterexamples: tuple[str, ...] = ()

    @property
    def causes(self) -> tuple[str, ...]:
        """What prints it, likeliest first."""
        return (self.slug, *self.also)


class ToldCircumstance(Row, frozen=True, kw_only=True):
    """What a person tells around a fault, and no program prints: "since it woke up", "only as root". It ranks the
    causes of what a program printed; where the person also complains and nothing was printed, it names one."""

    id: str
    vendor: Literal["nvidia", "amd", "any"]
    signs: tuple[str, ...] = ()
    """Small letters; every match holds one of them."""
    pattern: str = ""
    """In small letters; searched for in each line with the ones beside it, if the row has signs."""
    unless: str = ""
    """A pattern in small letters; a text that it matches tells of something else."""
    beside: str = ""
    """A pattern in small letters that the text must match beside `pattern`: "docker|podman"."""
    alone: bool = False
    """It is a complaint by itself."""
    remedy: bool = False
    """What helped: it counts where the text beside it says so, and then by itself."""
    of_message: bool = False
    """It counts only beside a message that names `slug` among its causes."""
    area: Literal["", "hardware", "driver", "access", "torch", "packages", "several processes"] = ""
    """Of what it states a fault, whatever else is amiss; none: it may be the effect of another fault that the text
    tells."""
    of_torch: bool = True
    """Whether torch may be what failed; of a program with libraries of its own, no build of torch mends anything."""
    any_program: bool = False
    """It may be told of many programs, each with a build of its own for a GPU: the one that the text is about gives
    the fix."""
    together: tuple[tuple[str, ...], ...] = ()
    """Sets of concepts. A short text that names all of one set in two sentences tells the circumstance, too, in any
    order and as a complaint by itself."""
    last: bool = False
    """It names the likeliest cause of a complaint of which nothing else is known: it counts only where the text tells
    no other circumstance."""
    where: Literal["", "rocm-lacks-kernels", "kernel-before-gpu"] = ""
    """It counts only where the facts of the text bear it out: the ROCm that it names has no rocBLAS kernels for the
    GPU and no torch brings its own, or the kernel that it names is older than the first one that supports the GPU."""
    slug: str
    severity: Literal["error", "warning"] = "error"
    meaning: str
    ask: str
    workaround: str
    example: str
    counterexamples: tuple[str, ...] = ()


class ToldConcept(Row, frozen=True, kw_only=True):
    """Words for one thing that people tell of: "it slept", "no GPU". Circumstances name concepts in `together`."""

    concept: str
    pattern: str
    """In small letters; searched for in a sentence, and not where the words before it deny it."""
    of_gpu: bool = False
    """It is a complaint: it does not count in a clause about something else, as the row `something-else` names it."""
    unless: str = ""
    """A pattern in small letters; a sentence that it matches tells of something else."""
    example: str
    counterexamples: tuple[str, ...] = ()


class ForeignWords(Row, frozen=True, kw_only=True):
    """What other languages call a thing that people tell of, or rarer English words. Sentences are read with the
    plain English words in its place, so that each circumstance is known in every language of this table. Rows count
    in their order."""

    english: str
    """What stands in its place; \\1 is the first group of the pattern."""
    signs: tuple[str, ...]
    """Small letters; every match holds one of them."""
    pattern: str
    """In small letters; letters of all scripts belong to words."""
    example: str
