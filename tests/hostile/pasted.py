"""Pasted texts of strangers: real outputs mutated, cut and spliced, with things planted that may mean more than text.

Everything that is planted bears MARK, so that it can be looked for in what gpudoctor says.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

import yaml

from tests.support.check_cases import matrix
from tests.support.pasted import PASTED

MARK = "zqx"
_CASES = Path(__file__).parents[1] / "cases"
_SHARED = Path(__file__).parents[3] / "shared"
_SMALL, _LARGE = 200, 60_000
"""Bytes of a recorded file that a person may paste."""
_MOST = 200_000
MEGABYTE = 1_000_000

_TERMINAL = (
    "\x1b]0;zqx\x07", "\x1b[2J\x1b[1;1Hzqx", "\x1b]8;;http://zqx\x1b\\zqx\x1b]8;;\x1b\\", "\x9b31mzqx",
    "\x90zqx\x9c", "\x07zqx\x08\x08", "zqx\r\x1b[K", "\u202ezqx\u202c", "\u2066zqx\u2069", "\u200bzqx\u200d",
    "\0zqx\0", "\x85zqx", "\u2028zqx", "\x0czqx\x0b", "^[[31mzqx", "\ufeffzqx", "\x1bP+q7a7178\x1b\\zqx",
    "\x1b[5nzqx", "\x7fzqx",
)  # fmt: skip
_MARKDOWN = (
    "@zqx", "@zqx/all ", "[zqx](http://zqx.example)", "![zqx](http://zqx.example/a.png)", "<script>zqx</script>",
    "<img src=x onerror=zqx>", "<!-- zqx", "--> zqx <!--", "\n```\n@zqx\n", "\n~~~~\n# zqx\n", "`zqx", "``` zqx",
    "| zqx |", "\n| --- | zqx |\n", "&lt;img src=zqx&gt;", "zqx#1", "zqx/zqx#12", "</details>zqx",
    "</code></pre>@zqx", "\\`zqx\\`", "\n# zqx\n", "\n- [ ] zqx\n", "https://zqx.example", "www.zqx.example",
    "mailto:zqx@zqx.example", "$$zqx$$", ":zqx:", "]]>zqx<!--", "&#64;zqx", "&#x1b;[31mzqx", "\n    zqx\n",
    "[zqx]: http://zqx.example", "<https://zqx.example>",
)  # fmt: skip
_WORKFLOW = (
    "::set-output name=zqx::zqx", "\n::add-mask::zqx\n", "##[add-mask]zqx", "##[set-output name=zqx;]zqx",
    "::stop-commands::zqx", "##vso[task.setvariable variable=zqx]zqx", "\n  ::error file=zqx::zqx\n",
    "##teamcity[zqx]", "%0A::debug::zqx",
)  # fmt: skip
_SHELL = (
    "$(touch zqx)", "`touch zqx`", "; touch zqx #", "&& touch zqx", "| sh zqx", "'; touch zqx; '",
    '"; touch zqx; "', "\ntouch zqx\n", "-r zqx", "--index-url=http://zqx.example", "--pre zqx", "../../zqx",
    "~zqx/", "$HOME/zqx", "*zqx*", ">zqx", "torch==2.5.1;touch$IFS-zqx", "torch==2.5.1+zqx", "numpy==2.0-zqx",
    "xformers==0.0.28.post1+zqx",
)  # fmt: skip
_FACTS = (
    "\nGPU 0: NVIDIA {} RTX 5090\n", "\n[pip3] torch=={}\n", "\n[pip3] torch==2.5.1+cu124\n[pip3] {}==1.0\n",
    "\n{}==2.0\n", "\nHSA_OVERRIDE_GFX_VERSION={}\n", "\nexport CUDA_VISIBLE_DEVICES='{}'\n",
    "\nLD_LIBRARY_PATH=/opt/{}:/usr/lib\n", "\nImportError: /opt/{}/flash_attn_2_cuda.so: undefined symbol: {}\n",
    "\nOSError: libcudart.so.{}: cannot open shared object file\n",
    "\nRuntimeError: CUDA error: no kernel image is available {}\n", "\nPython version: 3.12 {}\n",
    "\nOS: Ubuntu {}\n", "\nNVRM: Xid (PCI:0000:01:00): 79, {}\n", "\nuser@host:~$ docker run {} image\n",
    "\n| NVIDIA-SMI {} Driver Version: {} |\n",
    "\nNVIDIA {} with CUDA capability sm_120 is not compatible with the current PyTorch installation.\n",
    "\ncrw-rw---- 1 {} {} 235, 0 Nov 6 10:00 /dev/kfd\n",
    "\n  Name: gfx1031\n  Marketing Name: {}\n  Device Type: GPU\n", "\nFile \"/home/{}/x.py\", line 1\n",
    "\ntorch.cuda.get_device_name(0) -> '{}'\n", "\n{}\n",
)  # fmt: skip
PLANTS = (*_TERMINAL, *_MARKDOWN, *_WORKFLOW, *_SHELL)
_ODD = (
    "\r", "\0", "9", "sm_99999", "gfx", "f", "torch==", "(", "[[", "C:\\Users\\x\\", "=", "²", "\u0663",
    "\U0001d7d9", "Ⅷ",
)  # fmt: skip
"""What a reader of numbers and names may stumble over."""


@cache
def real_texts() -> tuple[str, ...]:
    """Texts as people paste them: the project's own, the matrix's examples, and recorded outputs where they are."""
    found = [*PASTED, *(row.example for row in matrix().tables.error_patterns)]
    for name in ("texts.yaml", "threads.yaml", "issues.yaml"):
        found += [row["text"] for row in yaml.safe_load((_CASES / name).read_text()).values()]
    shared = _SHARED / "cases/cases.jsonl"
    found += [json.loads(line)["input"] for line in shared.read_text().splitlines()] if shared.is_file() else []
    recorded = sorted(path for path in (_SHARED / "fixtures").rglob("*") if path.is_file())
    contents = (path.read_bytes() for path in recorded if _SMALL < path.stat().st_size < _LARGE)
    return (*found, *(content.decode("utf-8", "replace") for content in contents))


def hostile_text(chance: random.Random) -> bytes:
    """A real text in which things were changed, planted and torn apart, in some encoding."""
    text = chance.choice(real_texts())
    for _ in range(chance.choice((1, 2, 3, 5))):
        text = chance.choice(_CHANGES)(text, chance)[:_MOST]
    return chance.choice(_ENCODINGS)(text, chance)


# --- changes ---------------------------------------------------------------------------------------


def _at(text: str, chance: random.Random) -> int:
    """A place in a text; more often than not between two lines."""
    place = chance.randrange(len(text) + 1)
    return text.find("\n", place) + 1 if chance.random() < 0.6 else place


def _planted(text: str, chance: random.Random) -> str:
    at = _at(text, chance)
    return text[:at] + chance.choice((*PLANTS, *_ODD)) + text[at:]


def _stated(text: str, chance: random.Random) -> str:
    """A line that is read, with something planted in what it says."""
    at = _at(text, chance)
    return text[:at] + chance.choice(_FACTS).replace("{}", chance.choice(PLANTS)) + text[at:]


def _replaced(text: str, chance: random.Random) -> str:
    words = text.split(" ")
    words[chance.randrange(len(words))] = chance.choice((*PLANTS, *_ODD))
    return " ".join(words)


def _cut(text: str, chance: random.Random) -> str:
    start, end = sorted((chance.randrange(len(text) + 1), chance.randrange(len(text) + 1)))
    return text[:start] + text[end:] if end - start < len(text) // 2 else text[start:end]


def _spliced(text: str, chance: random.Random) -> str:
    other, at = chance.choice(real_texts()), _at(text, chance)
    return text[:at] + other[_at(other, chance) :] + text[at:]


def _shuffled(text: str, chance: random.Random) -> str:
    lines = text.split("\n")
    chance.shuffle(lines)
    return "\n".join(lines)


def _prefixed(text: str, chance: random.Random) -> str:
    before = chance.choice(("> ", "> > ", "\x1b[1m", "| ", "  12 ", "- ", "    ", "trainer-1  | "))
    return "\n".join(before + line for line in text.split("\n"))


def _repeated(text: str, chance: random.Random) -> str:
    lines = text.split("\n")
    place = chance.randrange(len(lines))
    lines[place] = chance.choice(("", "\n")).join([lines[place]] * chance.choice((2, 50, 2000)))
    return "\n".join(lines)


def _wrapped(text: str, chance: random.Random) -> str:
    """As a narrow terminal leaves it."""
    width = chance.choice((40, 80))
    lines = text.split("\n")
    return "\n".join(line[at : at + width] for line in lines for at in range(0, max(len(line), 1), width))


_CHANGES: tuple[Callable[[str, random.Random], str], ...] = (
    _planted, _planted, _stated, _stated, _stated, _replaced, _cut, _spliced, _shuffled, _prefixed, _repeated,
    _wrapped,
)  # fmt: skip


# --- encodings -------------------------------------------------------------------------------------


def _utf_8(text: str, chance: random.Random) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _windows(text: str, chance: random.Random) -> bytes:
    return text.replace("\n", "\r\n").encode("utf-16" if chance.random() < 0.5 else "cp1252", "replace")


def _spoiled(text: str, chance: random.Random) -> bytes:
    content = bytearray(_utf_8(text, chance))
    for _ in range(chance.choice((1, 9, 200))):
        content.insert(chance.randrange(len(content) + 1), chance.randrange(256))
    return bytes(content)


_ENCODINGS: tuple[Callable[[str, random.Random], bytes], ...] = (_utf_8, _utf_8, _utf_8, _windows, _spoiled)


# --- large ones ------------------------------------------------------------------------------------


def large_texts(chance: random.Random) -> Iterable[tuple[str, bytes]]:
    """Texts of a megabyte with their names: one line, a million lines, every kind of output again and again."""
    yield "one line", b"x" * MEGABYTE
    yield "one line of words", b"torch 2.5 " * (MEGABYTE // 10)
    yield "empty lines", b"\n" * MEGABYTE
    yield "short lines", b"a\n" * (MEGABYTE // 2)
    yield "GPU lines", b"GPU 0: NVIDIA A100-SXM4-80GB\n" * (MEGABYTE // 29)
    yield "carriage returns", b"12%\r" * (MEGABYTE // 4)
    yield "escapes", b"\x1b[31m" * (MEGABYTE // 5)
    yield "no escape's end", b"\x1b]" * (MEGABYTE // 2)
    yield "comments", b"<!-- " * (MEGABYTE // 5)
    yield "quotes", b"> " * (MEGABYTE // 2)
    yield "entities", b"&lt;" * (MEGABYTE // 4)
    yield "bad UTF-8", b"\xff\xfe\xfd" * (MEGABYTE // 3)
    yield "UTF-16", ("NVRM: Xid 79\r\n" * (MEGABYTE // 28)).encode("utf-16")
    yield "wide letters", "\u0130\u202e".encode() * (MEGABYTE // 5)
    texts = sorted(real_texts(), key=len)[-40:]
    for number in range(20):
        name, text = f"real outputs {number}", ""
        while len(text) < MEGABYTE:
            text += chance.choice(texts) + "\n"
        yield name, text[:MEGABYTE].encode("utf-8", "replace")
