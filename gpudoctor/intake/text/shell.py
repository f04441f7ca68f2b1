"""What people paste from a shell: variables, `docker run`, `ls -l` of device nodes, `uname`, `lspci`."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from gpudoctor.intake.text.access import read_groups, read_user
from gpudoctor.intake.text.dkms import is_tree
from gpudoctor.intake.text.facts import Facts, NamedGpu
from gpudoctor.intake.text.kernel_log import read_boot, read_module
from gpudoctor.intake.text.lines import Line, answer_below, text_of
from gpudoctor.intake.text.python_prompt import read_prompt
from gpudoctor.late_regex import late
from gpudoctor.line_search import lines_with
from gpudoctor.probes.pci_address import normal_address
from gpudoctor.probes.wsl_jetson import l4t_of

_VARIABLE = late(
    r"(?<![A-Za-z0-9_$./\[-])(?P<name>[A-Z][A-Z0-9_]{3,60})\"?(?:=| = |: )(?P<quote>['\"]?)"
    r"(?P<value>(?:[^\s'\"`,;)]|,(?=-?\d|GPU-|MIG-|[a-z_]{3,40}:)){0,500}|(?<=['\"])[^'\"]{0,500}(?=['\"]))"
)
_ENVIRON = late(r"os\.environ\[['\"](?P<name>[A-Z][A-Z0-9_]{3,60})['\"]\]\s?=\s?['\"](?P<value>[^'\"]{0,300})['\"]")
_EXPECTED = late(r"(?i)[#*\s]{0,8}expected (?:behaviou?r|result|outcome|output)\b[*:\s]{0,4}$")
"""The heading below which a person writes how it should be."""
_LONGEST_HEADING = 40
_ASKED = late(r"(?:\$|>|#)?\s{0,3}echo \$\{?(?P<name>[A-Z][A-Z0-9_]{3,60})\}?\s*$")
_ADVICE = late(
    r"(?i)(?:for debugging consider|you can set|please set|try (?:setting|using)|consider|recommend"
    r"|set(?:ting)? the env|e\.g\.|if you|instead of|should|could|will be|is set by|use `?export"
    r"|run with|by adding|workaround|CUDA_LAUNCH_BLOCKING=1\.?$)"
)
"""Lines that propose a variable; nobody says that it is set."""

_COMMENTED = late(r"\s+#|#(?:\s*- |(?=[^\s#]))")
"""A line that is switched off in a file; "# " alone may be the prompt of root."""
_OF_COMPOSE = late(r"\s*environment:\s*")
_ITEM = late(r"\s*- [A-Z][A-Z0-9_]{3,60}=(?P<quote>['\"])[^'\"]*(?P=quote)\s*")
"""An entry of the list below it: unlike a shell, it leaves quotation marks in the value."""
_TAKEN_AWAY = late(r"(?i)(?:remov(?:ing|ed)|without|unset(?:ting)?|dropp(?:ing|ed)|delet(?:ing|ed))[ `*'\"]{1,4}$")
"""What stands before a variable that is set no more."""
_TRIED = late(
    r"(?i)\b(?:(?:or|and|but|even|also)[ ,]{1,2}(?:if|when) (?:i|we)|if (?:i|we) (?:add|append|prepend))\b"
    r"[^.;!?]{0,80}$"
    r"|\b(?:also|even|already|have|.ve) tr(?:ied|ying)\b[^.;!?]{0,80}$"
)
_TRIED_IN_VAIN = late(
    r"(?i)\btr(?:ied|ying)\b.{0,200}(?:\b(?:but|still|same|nothing|no (?:luck|difference|change|effect|avail)"
    r"|without (?:success|effect|luck)|fails?|crash\w*|neither)\b|n't\b)"
)
"""What a sentence says of a variable that it was only tried with: what else failed, failed without it."""
_HELPED = late(
    r"(?i)(?<!neither )(?<!not )(?<!n't )(?<!never )\b(?:works?|worked|runs?|fixe[sd]|solve[sd]|help(?:s|ed))\b"
)
_SENTENCE = late(r"[.;!?]\s+")

_DOCKER = late(
    r"(?:^|[\s$#]|(?P<quoted>`))(?:sudo )?(?P<engine>docker|podman|nerdctl)(?: container)? run\s"
    r"(?P<rest>(?(quoted)[^`]{1,3000}|.{1,3000}))"
)
"""In a sentence such a command stands between backticks; those within a command run another one."""
_MOST_TAKEN_IN = 60
_JOB = late(
    r"(?:^|[\s$#`\"'])(?:srun|(?P<allocation>salloc))"
    r"(?= (?:-|python|torchrun|accelerate |nvidia-smi|bash ))(?P<rest>.{0,400})"
    r"|^\s{0,4}#(?:SBATCH|(?P<pbs>PBS)|(?P<lsf>BSUB)|(?P<sge>\$)) (?P<option>-\S.{0,120})"
)
"""Commands and options of Slurm, and the options of other batch systems."""
_ASKS_FOR_GPUS = late(r"--gres\b|--gpus|--tres\b|--exclusive|(?:^|\s)-G\b|\b[nv]?gpus?[=:]\d|(?:^|\s)-gpu\b|-l gpu")
_IN_CONTAINER = late(
    r"(?i)(?:^|\s)(?:inside|in|within|using|with|on) (?:an? |the |my )?"
    r"(?:(?:root(?:less|ful)|(?:un)?privileged|proxmox) )?"
    r"(?P<kind>docker(?! desktop)|podman|kubernetes|k8s|apptainer|singularity|lxc)\b(?: container| image)?"
    r"|\b(?:inside (?:a|the|my)|(?:run|runs|ran|running|execute|start)\b[^.;!?]{0,60}\bin (?:a|the|my)) container\b"
    r"|root@[0-9a-f]{12}:"
    r"|(?P<pod>\bkubectl (?:logs|exec)\b|Starting NVIDIA Device Plugin|\b(?:in|inside|run) (?:an?|the|my) pods?\b"
    r"|\b(?:kubernetes|k8s|k0s|k3s|rke2?|microk8s) (?:\w{1,12} )?v?1\.\d)|\bdocker[- ]compose\b|\bdocker exec\b"
    r"|^\S{0,80}(?:docker-)?entrypoint\.sh: line \d|^[\w.-]{1,60}[-_]\d{1,2} {1,30}\| "
    r"|^(?P<head>docker|podman|lxc|lxd|incus) (?:ct|container)\b"
    r"|\b(?:in|inside|on|using) (?:an? |the |my )?(?P<box>distrobox)\b"
    r"|^\s{2,12}image: ['\"]?[\w.-]{1,40}/[\w./-]{1,80}(?::[\w.-]{1,60})?['\"]?\s*$"
)
_KINDS_OF_CONTAINER = {"k8s": "kubernetes", "lxd": "lxc", "incus": "lxc"}
_CONTAINER_SIGNS = (
    "docker", "root@", "podman", "container", "distrobox", "kube", "k8s", "apptainer", "singularity", "lxc",
    "device plugin", " pod", "k0s", "k3s", "rke", "entrypoint.sh", " image: ",
    "  | ",
)  # fmt: skip
_NODE = late(
    r"(?<![\w-])c(?P<mode>[rwxsStT-]{9})(?P<more>\+?)[.@]?\s+\d{1,4}\s+(?P<owner>\S{1,40})\s+(?P<group>\S{1,40})\s+\d{1,4},"
    r"\s*\d{1,4}\s.{5,40}?\s(?P<path>/dev/(?:nvidia[\w-]{0,40}|kfd|dri/\w{1,20}|dxg)|kfd)(?![\w/-])"
)
"""What `ls -l` prints, also within a sentence."""
_MARKS = str.maketrans("", "", "*`")
_NO_NODE = late(
    r"(?i)(?:ls|l?stat|openat|cannot access|cannot open|open|crun|runc|unable)\b.{0,60}?"
    r"(?P<path>/dev/(?:nvidia[\w-]{0,30}|kfd|dri|dxg))\b.{0,12}?(?:no such file|ENOENT)"
    r"|(?P<told>/dev/(?:nvidia[\w-]{0,30}|kfd|dri|dxg))\b[`'\"/*]{0,3}(?: (?:device|node|file|folder|directory))? "
    r"(?:(?:is )?(?:missing|absent)\b|is not (?:there|present|found|available|created|mounted)"
    r"|(?:does not|doesn.t|did not|didn.t) (?:exist|appear|show up)|isn.t (?:there|present|created|mounted)"
    r"|no longer (?:exists|appears|shows up)|(?:is|has) (?:gone|disappeared)\b)"
    r"|(?:missing|no) [`'\"]?(?P<missed>/dev/(?:nvidia-uvm|kfd|dri|dxg))\b"
    r"|\b(?P<name>kfd|nvidia-uvm)\b[`'\"]?(?: device(?: ?nodes?)?| node)? "
    r"(?:is|are) (?:not present|missing|not there|absent)"
    r"|(?:missing|not registering|no) [`'\"]?(?P<named>kfd|nvidia-uvm)\b[`'\"]? [`'\"]?device"
)
"""A tool, or a sentence, says that it is not there."""
_UNAME = late(
    r"Linux (?:\S{1,80}|\(none\)) (?P<kernel>\d{1,2}\.\d{1,3}\.\d{1,4}\S{0,80}) #\d.{0,120}?(?P<arch>x86_64|aarch64)"
)
_PLATFORM = late(r"\b(?P<all>Linux-\d{1,2}\.\d{1,3}\.\d{1,4}\S{0,80}?-(?:x86_64|aarch64)-with-)")
"""Python's `platform.platform()`, wherever a report has it."""
_DISTRIBUTION = late(
    r"(?:^|[\s*`:])(?:OS|Distro|PRETTY_NAME|DISTRIB_DESCRIPTION|Description(?=.{0,60}\d|:\s{1,30}\w+(?: Linux)?$))"
    r"\s?[:=]\s{0,30}\"?(?P<os>(?:Ubuntu|Debian"
    r"|Fedora|Arch|Manjaro|EndeavourOS|CachyOS|Garuda|openSUSE|SUSE|Red Hat|RHEL|CentOS|Rocky|AlmaLinux|Oracle Linux"
    r"|Amazon Linux|NixOS|Gentoo|Void|Pop!_OS|Linux Mint|LMDE|elementary|Zorin|KDE neon|Kali|Nobara|Bazzite|Alpine"
    r"|openEuler|Artix)\b[^\"\n]{0,60})"
)
"""/etc/os-release, lsb_release, inxi, and the drawings that neofetch and its kin print beside it."""
_NAME_OF = late(r"\s{0,8}NAME=\"?(?P<name>[A-Z][\w !./-]{2,40}?)\"?$")
_VERSION_OF = late(r"\s{0,8}VERSION=\"?(?P<version>\d[^\"\n]{0,60})\"?$")
_NEAR = 4
"""Lines of /etc/os-release; the form of ROCm's issues asks for these two."""
_FOR_HIP = late(r"\s{0,8}HIP_PLATFORM\s{0,8}[:=] ?amd$")
"""Of hipconfig."""
_OF_THE_DRAWING = late(r" (?:x86_64|aarch64)\b.*|\s{2,}.*")
_PYTHON = late(
    r"(?:\s{0,8}(?:Using (?:C)?)?|.{0,30}INFO\s{1,8})Python(?: |: version=)(?P<version>3\.\d{1,2})\.\d{1,2}\S{0,12}"
    r"(?:$| \(| on Linux| \|| (?:environment|interpreter) at| platform=)"
    r"|.{0,60}\bPython-(?P<tool>3\.\d{1,2})\.\d{1,2}\S{0,8} torch-"
    r"|.{0,60}• {1,2}python: (?P<page>3\.\d{1,2})\.\d{1,2}"
)
"""What Python and programs print of it when they start."""
_BUILT_FOR = late(r"code=(?P<arch>(?:sm|compute)_\d{2,3}[af]?)")
_BUILT_WITH = late(r"\s{0,8}- (?P<what>CUDA|HIP) Runtime (?P<version>\d{1,2}\.\d{1,2})")
_BUILT = late(r"Build settings: .*\bTORCH_VERSION=(?P<version>\d\.\d{1,2}\.\d{1,2}[\w.+]{0,20})")
"""What `torch.__config__.show()` prints."""
_ISSUE = late(r"(?P<os>[A-Z][\w .()/-]{3,60}?) {1,4}\\n \\l")
"""/etc/issue, as reports of support tools hold it."""
_RELEASE = late(
    r"(?P<kernel>\d(?<![\w./]\d)\.\d{1,2}\.\d{1,3}(?:\.\d{1,3})?-[\w.+-]{0,50}(?:generic|microsoft|WSL2|amd64|arch|fc\d\d|el\d|lowlatency|azure|aws|gcp|oem|pve|tegra|zen|cachyos|default)[\w.+-]{0,40})"
)
_TEGRA = late(r"\b\d\.\d{1,2}\.\d{1,3}-(?:\w{1,12}-)?tegra\b")
"""Kernels of Jetson Linux."""
_ASKED_KERNEL = late(r"[^:\n]{0,60}\buname -r(?:\s{0,3}$|\s?[;&])")
_BARE_RELEASE = late(r"\d{1,2}\.\d{1,3}\.\d{1,4}\S{0,80}")
"""What `uname -r` answers with."""
_LSPCI = late(
    r"(?P<bdf>(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])\s+(?:VGA compatible controller"
    r"|3D controller|Display controller|Processing accelerators)(?: \[0?[\da-f]{3,4}\])?: "
    r"(?P<name>.{3,200})"
)
_LSPCI_NUMBERS = late(
    r"(?P<bdf>(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])\s+(?:Class )?\"?(?:03[0-9a-f]{2}|1200)\"?:? "
    r"\"?(?P<id>(?:10de|1002):[0-9a-f]{4})\b"
)
"""`lspci -n`, and busybox."""
_LSPCI_DRIVER = late(r"\s{1,16}Kernel driver in use: (?P<driver>[\w-]{2,30})")
_LSPCI_MODULES = late(r"\s{1,16}Kernel modules: (?P<all>[\w, -]{2,200})")
_PCI_ID = late(r"\[(?P<id>(?:10de|1002):[0-9a-fA-F]{4})\]")


def read_shell(lines: tuple[Line, ...], facts: Facts, variables: Collection[str]) -> None:
    """What the shell and Python prompts of a text say; of the variables only the named ones count."""
    contained = frozenset(lines_with(_CONTAINER_SIGNS, text_of(lines).lower()))
    expected = listed = False
    for place, line in enumerate(lines):
        number, text = line
        if not text:
            continue
        if text.startswith(("#", "*")) or len(text) < _LONGEST_HEADING:
            expected = bool(_EXPECTED.match(text)) or (expected and not text.startswith("#"))
        in_list = listed and text.lstrip().startswith(("- ", "#"))
        listed = in_list or _OF_COMPOSE.fullmatch(text) is not None
        if ("=" in text or ": " in text) and not expected:
            _variables(number, text, facts, variables, quoted=in_list and _ITEM.fullmatch(text) is not None)
        asked = _ASKED.match(text) if "echo" in text else None
        if asked and asked["name"] in variables and (following := answer_below(lines, place)):
            facts.say_even_empty(f"variable {asked['name']}", following.text.strip(), following.number, "shell")
        _nodes(number, text, facts)
        read_user(text, number, facts)
        if "uname" in text and _ASKED_KERNEL.match(text):
            _running_kernel(answer_below(lines, place), facts)
        if "groups" in text and (following := answer_below(lines, place)):
            read_groups(text, following.text.strip(), following.number, facts)
        if " run " in text and text.endswith("\\"):
            text = _whole_command(lines, place)
        _system(number, text, facts, contained=place in contained)
        read_module(line, facts)
        read_boot(line, facts)
        read_prompt(lines, place, text, facts)
    _pci_drivers(lines, facts)


def _whole_command(lines: tuple[Line, ...], place: int) -> str:
    """A command with the lines that its backslashes take in."""
    parts = [lines[place].text]
    while parts[-1].endswith("\\") and len(parts) < _MOST_TAKEN_IN and place + len(parts) < len(lines):
        parts.append(lines[place + len(parts)].text)
    return " ".join(part.rstrip("\\").strip() for part in parts)


def _running_kernel(following: Line | None, facts: Facts) -> None:
    if following and (release := _BARE_RELEASE.fullmatch(following.text.strip())):
        facts.say("kernel", release[0], following.number, "tool")


_OLLAMA_MAP = late(r"env=\"?map\[(?P<all>[^\]]{0,6000}|.{0,6000}?\]\")")
_MAPPED = late(r"(?<![\w])(?P<name>[A-Z][A-Z0-9_]{3,60}):(?P<value>(?![A-Z][A-Z0-9_]{3,60}:)\S{0,300})")


def _variables(number: int, text: str, facts: Facts, variables: Collection[str], *, quoted: bool) -> None:
    """The variables that a line sets; `quoted`: with the quotation marks around their values."""
    if "os.environ[" in text:
        for found in _ENVIRON.finditer(text):
            if found["name"] in variables:
                facts.say_even_empty(f"variable {found['name']}", found["value"], number, "shell")
    # ollama lists all it knows of: an empty one is not set.
    if "map[" in text and (mapped := _OLLAMA_MAP.search(text)):
        for found in _MAPPED.finditer(mapped["all"]):
            if found["name"] in variables and found["value"]:
                facts.say(f"variable {found['name']}", found["value"], number, "program")
        return
    found_here = [found for found in _VARIABLE.finditer(text[:2000]) if found["name"] in variables]
    if not found_here or _ADVICE.search(text) or _COMMENTED.match(text):
        return
    for found in found_here:
        name, value = found["name"], found["value"].strip("'\"")
        if _TAKEN_AWAY.search(text[: found.start()]) or _is_trial(text, found):
            continue
        if not found["quote"]:
            value = value.rstrip(".")  # the end of a sentence
        if value.startswith(("$", "<")) or "..." in value[:4]:
            continue
        if ": " in found[0] and not re.match(r"\s{0,12}(?:- )?\"?[A-Z]", text):
            continue
        if quoted:
            value = f"{found['quote']}{value}{found['quote']}"
        facts.say_even_empty(f"variable {name}", value, number, "shell")


def _is_trial(text: str, found: re.Match[str]) -> bool:
    """Whether a person tells that they tried it with the variable, too."""
    start = max((end.end() for end in _SENTENCE.finditer(text, 0, found.start())), default=0)
    end = _SENTENCE.search(text, found.end())
    before, sentence = text[start : found.start()], text[start : end.start() if end else len(text)]
    if _HELPED.search(sentence, len(before)):
        return False
    return bool(_TRIED.search(before) or _TRIED_IN_VAIN.search(sentence))


def _may_list(text: str) -> bool:
    return "controller" in text or "accelerators" in text


def _nodes(number: int, text: str, facts: Facts) -> None:
    if "/dev/" not in text and "kfd" not in text and "nvidia-uvm" not in text:
        return
    if node := _NODE.search(text.translate(_MARKS)):
        path = f"/dev/{node['path'].removeprefix('/dev/')}"
        facts.say(f"node {path}", f"{node['owner']}:{node['group']} {node['mode']}{node['more']}", number, "shell")
    elif missing := _NO_NODE.search(text):
        bare = missing["name"] or missing["named"]
        path = f"/dev/{bare.lower()}" if bare else missing["path"] or missing["told"] or missing["missed"]
        facts.say(f"no node {path}", "ENOENT", number, "shell")


def _system(number: int, text: str, facts: Facts, *, contained: bool) -> None:
    if text.endswith("\\l") and (issue := _ISSUE.fullmatch(text)):
        facts.say("os", issue["os"], number, "tool")
    if "(release)" in text and (l4t := l4t_of(text)):
        facts.say("l4t", l4t, number, "tool")
    if "-tegra" in text and (tegra := _TEGRA.search(text)):
        facts.say("tegra kernel", tegra[0], number, "tool")
    if "HIP_PLATFORM" in text and _FOR_HIP.match(text):
        facts.say("for amd", text, number, "tool")
    if "ython" in text and (python := _PYTHON.match(text)):
        facts.say("python", python["version"] or python["tool"] or python["page"], number, "program")
    if ":" in text or "=" in text:
        _distribution(number, text, facts)
    if "Runtime" in text and (built := _BUILT_WITH.match(text)):
        facts.say("torch cuda" if built["what"] == "CUDA" else "torch hip", built["version"], number, "shell")
    elif "NVCC architecture flags" in text:
        facts.say("archs", " ".join(_BUILT_FOR.findall(text)), number, "program")
    elif "TORCH_VERSION=" in text and (settings := _BUILT.search(text)):
        facts.say("torch", settings["version"], number, "shell")
    if "Linux " in text and (uname := _UNAME.search(text)):
        facts.say("kernel", uname["kernel"], number, "tool")
        facts.say("arch", uname["arch"], number, "tool")
    elif "Linux-" in text and (platform := _PLATFORM.search(text)):
        facts.say("platform", platform["all"], number, "report")
    elif "-" in text and (release := _RELEASE.search(text)) and not is_tree(text):
        facts.say("kernel", release["kernel"].rstrip("."), number, "prose")
    if ("srun " in text or "salloc " in text or "#" in text) and (job := _JOB.search(text)):
        asks = _ASKS_FOR_GPUS.search(job["rest"] or job["option"] or "")
        kind = next((kind for kind in ("pbs", "lsf", "sge") if job[kind]), "slurm")
        what = "job allocation" if job["allocation"] else "job"
        facts.say(what, f"{kind} with GPUs" if asks else kind, number, "shell")
    if " run " in text and (docker := _DOCKER.search(text)):
        facts.say("container", docker["engine"], number, "shell")
        facts.say("container command", docker["rest"], number, "shell")
    elif contained and (inside := _IN_CONTAINER.search(text)):
        kind = (
            "kubernetes" if inside["pod"] else (inside["kind"] or inside["head"] or inside["box"] or "docker").lower()
        )
        facts.say("container", _KINDS_OF_CONTAINER.get(kind, kind), number, "prose")
    if ("10de:" in text or "1002:" in text) and (plain := _LSPCI_NUMBERS.search(text)):
        bdf = normal_address(plain["bdf"]) or ""
        facts.gpus.append(NamedGpu(number, "shell", pci_id=plain["id"], bdf=bdf))
    elif _may_list(text) and (listed := _LSPCI.search(text)):
        name, vendor = listed["name"], listed["name"].lower()
        if "nvidia" in vendor or "amd" in vendor or "ati" in vendor:
            pci, unnamed = _PCI_ID.search(name), re.search(r"\bDevice ([0-9a-f]{4})\b", name)
            by_id = pci["id"].lower() if pci else ""
            if unnamed and not pci:  # lspci's own list is older than the GPU
                by_id = f"{'10de' if 'nvidia' in vendor else '1002'}:{unnamed[1]}"
            name = re.sub(r"\s*\[[0-9a-f]{4}:[0-9a-f]{4}\]|\(rev \w+\)|\(prog-if.*", "", name).strip()
            bdf = normal_address(listed["bdf"]) or ""
            facts.gpus.append(NamedGpu(number, "shell", name=name, pci_id=by_id, bdf=bdf))


def _pci_drivers(lines: Iterable[Line], facts: Facts) -> None:
    """The kernel driver that `lspci -k` names below a GPU. It names the driver before the modules: where it does not,
    no driver has the GPU."""
    bdf = ""
    for number, text in lines:
        if _may_list(text) and (listed := _LSPCI.search(text)):
            bdf = normal_address(listed["bdf"]) or ""
            driven = False
        elif bdf and (driver := _LSPCI_DRIVER.match(text)):
            facts.say(f"bound {bdf}", driver["driver"], number, "tool")
            driven = True
        elif bdf and (modules := _LSPCI_MODULES.match(text)):
            if "nvidia" in modules["all"].split(", "):
                facts.say("module nvidia", "installed", number, "tool")
            if not driven:
                facts.say_even_empty(f"bound {bdf}", "", number, "tool")
        elif not text.startswith((" ", "\t")):
            bdf = ""


def _distribution(number: int, text: str, facts: Facts) -> None:
    if "VERSION=" in text and (release := _VERSION_OF.match(text)):
        named = [one for one in facts.said if one.what == "distribution" and number - one.line <= _NEAR]
        if named:
            facts.say("os", f"{named[-1].value} {release['version']}", number, "report")
    elif "NAME=" in text and (name := _NAME_OF.match(text)):
        facts.say("distribution", name["name"], number, "report")
    if found := _DISTRIBUTION.search(text):
        facts.say("os", _OF_THE_DRAWING.sub("", found["os"]).strip(), number, "report")
