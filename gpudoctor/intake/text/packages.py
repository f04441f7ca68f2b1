"""Lists of packages: pip, uv, conda, requirements, and the lists in collect_env."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpudoctor.dependencies import normalised
from gpudoctor.intake.text.facts import Facts, Statement
from gpudoctor.intake.text.lines import Line, text_of
from gpudoctor.late_regex import late
from gpudoctor.matrix.questions import Matrix

_NAME = r"[A-Za-z][A-Za-z0-9._-]{0,60}"
_VERSION = r"\d[\w.+!-]{0,60}"
_PINNED = late(
    rf"\s{{0,8}}(?:[+~]\s)?(?:\[(?P<from>pip3?|conda)\]\s{{1,4}})?(?P<name>{_NAME})(?:\[[\w,-]{{1,60}}\])?==(?P<version>{_VERSION})(?:\s|$|;|\\)"
)
_IN_YAML = late(rf"\s{{4,16}}- (?P<name>{_NAME})==(?P<version>{_VERSION})$")
"""Below "pip:" in an environment of conda. uv writes a "-" before what it removed, with less space."""
_FROM_WHEEL = late(rf"\s{{0,8}}(?P<name>{_NAME}) @ \S*?/[\w.]{{1,60}}?-(?P<version>\d[\w.%+!]{{0,60}}?)-(?:cp|py)\d")
_IN_TREE = late(rf"[\s│├└─]{{2,40}}(?P<name>{_NAME})(?:\[[\w,-]{{1,60}}\])? v(?P<version>{_VERSION})(?: \(.*)?$")
_KEPT = late(rf"(?:(?P<name>{_NAME}) (?P<version>{_VERSION}) (?:has requirement|requires) .{{1,200}})?but you have ")
_SATISFIED = late(
    rf"Requirement already satisfied: (?P<name>{_NAME})\S{{0,80}}(?: in \S{{1,200}})? (?:\(from .{{1,200}}?\) )?"
    rf"\((?P<version>{_VERSION})\)$"
)
_HAVE = late(rf"\bbut you have (?P<name>{_NAME}) (?P<version>{_VERSION})")
"""What pip says of packages that are there, or do not fit together."""
_ENTRY = late(rf"\"name\": ?\"(?P<name>{_NAME})\", ?\"version\": ?\"(?P<version>{_VERSION})\"")
_ENTRY_NAME = late(rf"\s{{0,16}}\"?[Nn]ame\"?\s?[:=]\s{{1,8}}\"?(?P<name>{_NAME})\"?,?$")
_ENTRY_VERSION = late(rf"\s{{0,16}}\"?[Vv]ersion\"?\s?[:=]\s{{1,8}}\"?(?P<version>{_VERSION})\"?,?$")
"""The two lines of `pip show`, `pip inspect` and lock files."""
_BUILD = late(r"\s{0,16}\"build(?:_string)?\": \"(?P<build>[\w.]{2,80})\"")
"""Of `conda list --json`."""
_QUOTED_LIST = late(r"\s{0,16}\"(?:pip_packages|Packages)\"\s?: ?\[")
"""In what the Stable Diffusion web UIs tell of their system."""
_MODULE = late(
    r"\d\) (?:\w{1,20}/)?[Pp]y[Tt]orch/(?P<version>\d\.\d{1,2}\.\d{1,2})(?:-\S{0,60}?CUDA-(?P<cuda>\d{1,2}\.\d))?"
)
"""Of `module list`."""
_COLUMNS = late(
    rf"\s{{0,8}}(?:\[conda\]\s{{1,4}})?(?P<name>{_NAME})\s{{1,60}}(?P<version>{_VERSION})(?P<rest>(?:\s{{1,60}}\S{{1,200}}){{0,4}})\s{{0,80}}$"
)
_ALIGNED = late(rf"\s{{0,8}}(?P<name>{_NAME})\s{{2,60}}(?P<version>{_VERSION})\s{{2,60}}(?P<rest>\S.{{0,200}})$")
"""The columns of poetry and pixi, with a description or sizes behind them."""
_KNOWN = late(
    r"(?:torch|pytorch|nvidia-|cuda-|triton|pytorch-triton|xformers|vllm|flash-attn|flash_attn|bitsandbytes|numpy|jax|tensorflow"
    r"|onnxruntime|cupy|deepspeed|transformers|accelerate|diffusers|peft|trl|unsloth|sglang|flashinfer|auto-gptq|autoawq|exllama"
    r"|causal-conv1d|mamba-ssm|apex|nccl|cudnn|cudatoolkit|sageattention|torchao|rocm|amd-torch|lightning|pytorch-lightning|k2)",
    re.IGNORECASE,
)
"""What is worth knowing of a list; "0.26.3" beside any other word is no package."""
_LIST_HEAD = late(
    r"\s{0,4}(?:Package\s{1,60}Version|# packages in environment|#? ?Name\s{1,40}Version|-{3,60}\s-{3,60})"
)
_INSTALLED = late(r"Successfully installed (?P<all>.{3,6000})")
_REQUIREMENT_TOOL = late(
    r"(?:^|[$#>]\s{0,3}|\bRUN\s|`|!)\s{0,3}(?:python\d?(?:\.\d+)? -m )?(?:uv |conda |mamba )?"
    r"(?:pip3? )?(?:install|add)\b"
)
_TORCH_INDEX = late(
    r"\b(?:install|add)\b.{1,400}\btorch\b.{1,400}/whl/(?P<build>cu\d{2,3}|rocm\d\.\d(?:\.\d)?|cpu)(?!\w|\.\w)"
)
"""A command that takes torch from an index of one build: what is installed, where it came to that."""
_CONDA_BUILD = late(
    r"\bpytorch(?![\w./-]).{0,200}? ['\"]?(?:cudatoolkit|pytorch-cuda)={1,2}(?P<cuda>\d{1,2}\.\d)(?![\d.]*\d)"
)
"""The packages that say for which CUDA conda shall take torch."""
_NOT_INSTALLED = late(r"ERROR: No matching distribution found for torch|No solution found when resolving")
"""The end of a command that installed nothing."""
_ASKED_TORCH = late(
    r"\btorch={2,3}(?P<version>\d{1,2}\.\d{1,3}\.\d{1,3})(?P<build>\+(?:cu\d{2,3}|rocm\d\.\d(?:\.\d)?|cpu))?(?![\w.+])"
)
_TORCH_WHEEL = late(
    r"(?<![\w-])torch-(?P<version>\d\.\d{1,2}\.\d{1,2}(?:(?:\+|%2B)[\w.]{2,30}?)?)-(?:cp|py)3(?P<python>\d{0,2})-\S{3,80}\.whl"
)
"""What the name of a file says of the torch that it holds."""
_TAKES_WHEEL = late(r"\s{0,8}(?:Downloading|Using cached|Processing) \S")
_IMAGE = late(r"(?<![\w./:@-])(?:[a-z0-9][\w.-]{1,40}/){1,3}[a-z0-9][\w.-]{1,60}:\w[\w.-]{1,120}")
"""The name of a container image with its tag."""
_REFUSED_WHEEL = late(r"(?i)not a supported wheel|skipping link|\berror\b|no such file|404|\binstead\b|\bworks?\b")
_OTHER_IMAGE = late(
    r"(?i)\binstead\b|\b(?:it|this|that|image|container|everything|all) (?:all )?works?\b|\bworks? (?:fine|with)\b"
)
"""Of an image that is not the one in question."""
_FAILED_INSTALL = late(
    r"ERROR: (?:Could not install|No matching|Cannot install|ResolutionImpossible|Operation cancelled|Exception)"
    r"|No space left on device|^MemoryError|^Killed\b"
)
"""The end of a command of pip that left nothing behind."""
_LONGEST_LINE = 300
"""Characters of a line in which a person names several packages."""
_NEAR = 3
"""Lines between the name and the version of an entry."""
_ENTRY_LINES = 6
"""Lines of an entry of a lock file before its dependencies."""
_OF_VERSION = (
    r"[ :=`'\"*]{1,4}(?:(?:version|ver|v)[ .:=`]{0,3})?v?(?P<version>\d{1,3}\.\d{1,3}[\w.+]{0,30})(?![\w/-])"
)
_NOT_HERE = late(
    r"(?i)\b(?:works?|worked|fine|fixed|solved|upgrad\w*|updat\w*|downgrad\w*|try|tried|should|instead|newer|older|latest|>=|<=)(?:\b|(?<==))"
)
"""What is said of a release that is not the one that fails."""
_ADVISED = late(r"(?i)\b(?:try|should|could|can|please|recommend\w*|suggest\w*|instead of|tells? me|says?)\b")


def read_packages(lines: tuple[Line, ...], facts: Facts, matrix: Matrix) -> None:
    """Every package of a list, with its version."""
    listing, quoted, from_index, files = False, False, list[Statement](), list[Statement]()
    entry, named_at = "", 0
    for place, (number, printed) in enumerate(lines):
        if not printed:
            continue
        quoted = bool(_QUOTED_LIST.match(printed)) or (quoted and not printed.lstrip().startswith("]"))
        text = printed.strip('", ') if quoted else printed
        if "│" in text and "─" not in text:  # a table
            text = text.replace("│", "  ").strip()
        if "ame" in text and (named := _ENTRY_NAME.match(text)):
            entry, named_at = named["name"], number
            continue
        if entry and number - named_at <= _NEAR and (versioned := _ENTRY_VERSION.match(text)):
            if _KNOWN.match(entry) and not _is_of_another_system(lines[place + 1 : place + _ENTRY_LINES]):
                build = next(
                    filter(None, (_BUILD.match(line.text) for line in lines[max(0, place - 8) : place])), None
                )
                conda = build["build"] if build else ""
                _say(entry, versioned["version"], number, facts, conda=bool(conda), build=conda)
            entry = ""
            continue
        if _read_told(number, text, facts):
            continue
        if from_index and _NOT_INSTALLED.search(text):
            failed = from_index[-1].line
            from_index = [said for said in from_index if said.line != failed]
        if "torch" in text or (":" in text and "/" in text):
            files += _in_a_name(text, number, matrix)
        if files and _FAILED_INSTALL.search(text):
            files = [said for said in files if said.what != "torch wheel"]
        if "Successfully" in text and (installed := _INSTALLED.search(text)):
            for one in installed["all"].split():
                name, dash, version = one.rpartition("-")
                if dash and re.fullmatch(_VERSION, version):
                    _say(name, version, number, facts)
            continue
        from_index += _wanted(text, number)
        # A command asks for a package: whether it is there, nobody said.
        if _is_command(text):
            continue
        if "==" in text:
            if pinned := _PINNED.match(text):
                _say(pinned["name"], pinned["version"], number, facts)
            continue
        if _LIST_HEAD.match(text):
            listing = True
        elif not _read_row(number, text, facts, listed=listing):
            listing = listing and bool(re.match(r"[\s#─_-]", text))
    facts.said.extend((*from_index, *files))


def _in_a_name(text: str, number: int, matrix: Matrix) -> Iterator[Statement]:
    """The torch of a wheel that pip takes, with its Python, and that of an image."""
    if _ADVISED.search(text):
        return
    of_pip = ".whl" in text and (_TAKES_WHEEL.match(text) is not None or _is_command(text))
    if of_pip and not _REFUSED_WHEEL.search(text) and (wheel := _TORCH_WHEEL.search(text)):
        yield Statement("torch wheel", wheel["version"].replace("%2B", "+"), number, "shell")
        if wheel["python"]:
            yield Statement("python", f"3.{wheel['python']}", number, "shell")
    for image in () if _OTHER_IMAGE.search(text) else _IMAGE.finditer(text):
        held = matrix.images.base_image(image[0])
        if held and held.torch and held.cuda:
            yield Statement("torch image", f"{held.torch}+cu{held.cuda.replace('.', '')}", number, "shell")
            yield Statement("container", "docker", number, "shell")


def read_said_versions(lines: tuple[Line, ...], facts: Facts, matrix: Matrix) -> None:
    """The versions that sentences and titles give the packages that a message is about, and those whose name
    says that they are for GPUs, where all give one."""
    rows = [row for line in facts.errors if (row := matrix.errors.cause_seen(line.text, None))]
    slugs, tables = {row.slug for row in rows}, matrix.tables
    names = {row.package for row in tables.torch_dependents if row.slug in slugs}
    names.update(
        name for row in tables.frameworks for name in row.packages if row.framework in {one.framework for one in rows}
    )
    whole = text_of(lines).lower()
    names.update(
        one.package for one in tables.framework_builds if one.package != one.framework and one.package in whole
    )
    for name in sorted(names):
        said = re.compile(rf"(?<![\w./+-])(?:{re.sub('[-_]', '[-_]', name)}){_OF_VERSION}", re.IGNORECASE)
        found = {
            (one["version"].rstrip("."), number)
            for number, text in lines
            if not _is_command(text) and not _NOT_HERE.search(text)
            for one in said.finditer(text[:_LONGEST_LINE])
        }
        if len({version for version, _ in found}) == 1:
            version, number = min(found, key=lambda one: one[1])
            facts.say(f"package {normalised(name)}", version, number, "prose")


def _read_row(number: int, text: str, facts: Facts, *, listed: bool) -> bool:
    """Whether the line is the row of a package; outside a list only that of one that is known."""
    row = _COLUMNS.match(text) or _ALIGNED.match(text)
    of_conda = text.lstrip().startswith("[conda]")
    if row is None or not (listed or of_conda or _KNOWN.match(row["name"])):
        return False
    rest = row["rest"].split()
    conda = of_conda or _is_conda(rest)
    _say(row["name"], row["version"], number, facts, conda=conda, build=" ".join(rest))
    return True


def _is_command(text: str) -> bool:
    return ("install" in text or "add" in text) and _REQUIREMENT_TOOL.search(text) is not None


def _wanted(text: str, number: int) -> Iterator[Statement]:
    """The index of torch's builds that a command takes, the CUDA, and the version that it asks for."""
    index = _TORCH_INDEX.search(text) if "/whl/" in text else None
    if not (index or _is_command(text)) or _ADVISED.search(text):
        return
    if index:
        yield Statement("torch index", index["build"], number, "shell")
    if asked := _ASKED_TORCH.search(text):
        build = "" if index else asked["build"] or ""
        yield Statement("torch asked", asked["version"] + build, number, "shell")
    if "cuda" in text and (conda := _CONDA_BUILD.search(text)):
        yield Statement("torch cuda", conda["cuda"], number, "shell")


def _in_one_line(text: str) -> list[tuple[str, str]]:
    """ "torch==2.7.0+cu128 torchvision==0.20.1", "torch 2.7.0, torchvision 0.20.1": all packages of a line that holds
    nothing else; none of any other line."""
    words = re.split(r"[,;]?\s+(?:and\s+)?|==", text.strip())
    pairs = list(zip(words[::2], words[1::2], strict=False))
    whole = len(words) == 2 * len(pairs) and len(pairs) > 1
    return (
        pairs
        if whole and all(_KNOWN.match(one) and re.fullmatch(_VERSION, version) for one, version in pairs)
        else []
    )


def _is_of_another_system(entry: tuple[Line, ...]) -> bool:
    """Whether a lock file has this version for Windows or macOS only."""
    markers = text_of(entry).partition("[[package]]")[0]
    return "sys_platform == 'darwin'" in markers and "linux" not in markers


def _read_told(number: int, text: str, facts: Facts) -> bool:
    """Whether the line tells of packages in a form of its own: a wheel, a tree, a complaint, JSON, a module."""
    found: list[re.Match[str]] = []
    if " @ " in text and (wheel := _FROM_WHEEL.match(text)):
        found = [wheel]
    elif "─" in text and (leaf := _IN_TREE.match(text)):
        found = [leaf]
    elif "but you have " in text:
        found = [one for pattern in (_KEPT, _HAVE) if (one := pattern.search(text)) and one["name"]]
    elif "already satisfied" in text and (there := _SATISFIED.search(text)):
        found = [there]
    elif '"version"' in text:
        found = [one for one in _ENTRY.finditer(text) if _KNOWN.match(one["name"])]
    elif "- " in text and (listed := _IN_YAML.match(text)):
        found = [listed]
    elif "orch/" in text and (module := _MODULE.search(text)):
        facts.say("torch", module["version"], number, "list")
        facts.say("torch cuda", module["cuda"] or "", number, "list")
        return True
    named = [(one["name"], one["version"].replace("%2B", "+").rstrip(".")) for one in found]
    if not found and "torch" in text and len(text) <= _LONGEST_LINE:
        named = _in_one_line(text)
    for name, version in named:
        _say(name, version, number, facts)
    return bool(named)


def _is_conda(rest: list[str]) -> bool:
    return len(rest) > 1 and "_" in rest[0]


def _say(name: str, version: str, number: int, facts: Facts, *, conda: bool = False, build: str = "") -> None:
    name = normalised(name)
    if name in ("python", "version"):
        if conda:
            facts.say("python", ".".join(version.split(".")[:2]), number, "list")
        return
    if conda and "pypi" not in build and name in ("pytorch", "torch", "libtorch"):
        facts.say("torch conda", version, number, "list")
        if cuda := re.search(r"cuda_?(\d{1,2})[._]?(\d)", build):
            facts.say("torch cuda", f"{cuda[1]}.{cuda[2]}", number, "list")
        elif re.search(r"(?<![a-z])cpu", build):
            facts.say("torch cuda", "None", number, "list")
        return
    if name in ("torch", "pytorch"):
        facts.say("torch", version, number, "list")
    else:
        facts.say(f"package {name}", version, number, "list")
