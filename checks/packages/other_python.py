"""Whether the installed packages were made for this Python and this machine (GPD475)."""

from __future__ import annotations

from gpudoctor.check import Verdicts, check
from gpudoctor.finding import Evidence, Finding, Fix
from gpudoctor.frameworks.torch.file_faults import OTHER_PYTHON
from gpudoctor.frameworks.torch.reinstall import all_again
from gpudoctor.frameworks.torch.unmet_dependencies import needed_first, needed_packages
from gpudoctor.plain_text import enumeration
from gpudoctor.situation import Situation

_MOST_NAMED = 5


@check("GPD475", OTHER_PYTHON, "packages")
def packages_for_another_python(situation: Situation) -> Verdicts:
    """Installed packages were made for another Python or platform.

    ## Why it matters
    Python does not find their compiled modules, or refuses to load them: "No module named 'torch._C'", "undefined
    symbol", "wrong ELF class". So it is where site-packages was copied or mounted from another environment, where a
    venv got another Python, or where `pip install --target --python-version` chose the wheels.

    ## How it is judged
    The tags of the wheel, in the WHEEL file beside its metadata, are for another Python, processor, system or C
    library (musl of Alpine Linux, glibc). If RECORD lists a module for this Python, the tags do not count. Only
    packages inside the examined environment are compared, and only those that have a RECORD. It is an error if a
    package with GPU code is among them, or something that such a package requires; else a warning.

    ## Fix safety
    Installs all of them again in the same versions, by this Python. Packages that are the same for every Python stay.
    """
    faults = situation.environment.start_faults if situation.environment else ()
    wrong = needed_first(situation, (one for one in situation.machine.packages if one.made_for))
    if not wrong or any(fault.kind == "interpreter-foreign" for fault in faults):
        return  # it is the interpreter that is wrong, and not what it is compared with
    named = enumeration([f"{one.name} {one.version}" for one in wrong], _MOST_NAMED)
    made_for = " or ".join(dict.fromkeys(one.made_for for one in wrong))
    here = f"Python {situation.python} on {situation.platform.partition('-')[2]}"
    if "Linux with" in made_for:
        here += f" with {(situation.machine.system.libc.value or 'another C library').partition(' ')[0]}"
    yield Finding(
        severity="error" if wrong[0].name in needed_packages(situation) else "warning",
        message=f"{named} {'was' if len(wrong) == 1 else 'were'} made for {made_for}, and this is {here}: "
        "compiled modules of another Python or platform cannot be loaded.",
        saw=made_for,
        want=here,
        subject=f"{wrong[0].name} {wrong[0].version}",
        evidence=tuple(Evidence(one.name, f"wheel for {one.made_for}", f"{one.path}/WHEEL") for one in wrong[:10]),
        fixes=(Fix("Install these packages again", all_again(situation, wrong, f"its files are for {made_for}")),),
        supersedes=(
            "torch-import-fails",
            "framework-import-fails",
            "requirements-incomplete",
            "python-dev-missing",
            "no-gpu",
        ),
    )
