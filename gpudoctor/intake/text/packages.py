"""Lists of packages: pip, uv, conda, requirements, and the lists in collect_env."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gpudoctor.dependencies import normalised
from gpudoctor.intake.text.facts import Facts, Said
from gpudoctor.intake.text.lines import Line

_NAME = r"[A-Za-z][A-Za-z0-9._-]{0,60}"
_VERSION = r"\d[\w.+!-]{0,60}"
_PINNED = re.compile(
    rf"\s{{0,8}}(?:[+~]\s)?(?:\[(?P<from>pip3?|conda)\]\s{{1,4}})?(?P<name>{_NAME})(?:\[[\w,-]{{1,60}}\])?==(?P<version>{_VERSION})(?:\s|$|;|\\)"
)
_COLUMNS = re.compile(
    rf"\s{{0,8}}(?P<conda>\[conda\]\s{{1,4}})?(?P<name>{_NAME})\s{{1,60}}(?P<version>{_VERSION})(?P<rest>(?:\s{{1,60}}\S{{1,200}}){{0,4}})\s{{0,80}}$"
)
_KNOWN = re.compile(
    r"(?:torch|pytorch|nvidia-|cuda-|triton|pytorch-triton|xformers|vllm|flash-attn|flash_attn|bitsandbytes|numpy|jax|tensorflow"
    r"|onnxruntime|cupy|deepspeed|transformers|accelerate|diffusers|peft|trl|unsloth|sglang|flashinfer|auto-gptq|autoawq|exllama"
    r"|causal-conv1d|mamba-ssm|apex|nccl|cudnn|cudatoolkit|sageattention|torchao|rocm|amd-torch|lightning|pytorch-lightning|k2)",
    re.IGNORECASE,
)
"""What is worth knowing of a list; "0.26.3" beside any other word is no package."""
_LIST_HEAD = re.compile(
    r"\s{0,4}(?:Package\s{1,60}Version|# packages in environment|#? ?Name\s{1,40}Version|-{3,60}\s-{3,60})"
)
_INSTALLED = re.compile(r"Successfully installed (?P<all>.{3,6000})")
_REQUIREMENT_TOOL = re.compile(
    r"(?:^|[$#>]\s{0,3}|\bRUN\s|`|!)\s{0,3}(?:python\d?(?:\.\d+)? -m )?(?:uv |conda |mamba )?"
    r"(?:pip3? )?(?:install|add)\b"
)
_TORCH_INDEX = re.compile(
    r"\b(?:install|add)\b.{1,400}\btorch\b.{1,400}/whl/(?P<build>cu\d{2,3}|rocm\d\.\d(?:\.\d)?|cpu)(?!\w|\.\w)"
)
"""A command that takes torch from an index of one build: what is installed, where it came to that."""
_NOT_INSTALLED = re.compile(r"ERROR: No matching distribution found for torch|No solution found when resolving")
"""The end of a command that installed nothing."""
_ASKED_TORCH = re.compile(r"\btorch==(?P<version>\d{1,2}\.\d{1,3}\.\d{1,3})(?![\w.])")
_ADVISED = re.compile(r"(?i)\b(?:try|should|could|can|please|recommend\w*|suggest\w*|instead of|tells? me|says?)\b")


def read_packages(lines: Iterable[Line], facts: Facts) -> None:
    """Every package of a list, with its version."""
    listing, from_index = False, list[Said]()
    for number, text in lines:
        if not text:
            continue
        if from_index and _NOT_INSTALLED.search(text):
            command = from_index[-1].line
            from_index = [said for said in from_index if said.line != command]
        if "Successfully" in text and (installed := _INSTALLED.search(text)):
            for one in installed["all"].split():
                name, dash, version = one.rpartition("-")
                if dash and re.fullmatch(_VERSION, version):
                    _say(name, version, number, facts)
            continue
        if "/whl/" in text and (index := _TORCH_INDEX.search(text)) and not _ADVISED.search(text):
            from_index.append(Said("torch index", index["build"], number, "shell"))
            if asked := _ASKED_TORCH.search(text):
                from_index.append(Said("torch asked", asked["version"], number, "shell"))
        # A command asks for a package: whether it is there, nobody said.
        if ("install" in text or "add" in text) and _REQUIREMENT_TOOL.search(text):
            continue
        if "==" in text:
            if pinned := _PINNED.match(text):
                _say(pinned["name"], pinned["version"], number, facts)
            continue
        if _LIST_HEAD.match(text):
            listing = True
            continue
        columns = _COLUMNS.match(text)
        if columns is None or not (listing or columns["conda"] or _KNOWN.match(columns["name"])):
            listing = listing and bool(re.match(r"[\s#-]", text))
            continue
        rest = columns["rest"].split()
        if columns["name"].lower() in ("version", "python"):
            continue
        _say(
            columns["name"],
            columns["version"],
            number,
            facts,
            conda=bool(columns["conda"]) or _is_conda(rest),
            build=" ".join(rest),
        )
    facts.said.extend(from_index)


def _is_conda(rest: list[str]) -> bool:
    return len(rest) > 1 and "_" in rest[0]


def _say(name: str, version: str, number: int, facts: Facts, *, conda: bool = False, build: str = "") -> None:
    name = normalised(name)
    if name == "python":
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
