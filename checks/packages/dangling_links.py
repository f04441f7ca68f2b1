"""Whether the files of the installed packages are links that lead nowhere (GPD477)."""

from __future__ import annotations

from gpudoctor.check import Verdicts, check
from gpudoctor.finding import Evidence, Finding, Fix
from gpudoctor.frameworks.torch.file_faults import UNLINKED
from gpudoctor.frameworks.torch.reinstall import all_again
from gpudoctor.frameworks.torch.unmet_dependencies import needed_first, needed_packages
from gpudoctor.plain_text import enumeration
from gpudoctor.situation import Situation

_MOST_NAMED = 5


@check("GPD477", UNLINKED, "packages")
def package_links_lead_nowhere(situation: Situation) -> Verdicts:
    """The files of installed packages are links into a folder that is gone.

    ## Why it matters
    The packages cannot be imported. `uv --link-mode symlink` installs links into uv's cache: `uv cache clean`, or a
    cache in a temporary folder, takes all files away at once. No installer can repair one package alone, because the
    records of the others cannot be read.

    ## How it is judged
    METADATA or WHEEL of a package is a symbolic link, and leads nowhere. It is an error if a package with GPU code is
    among them, or something that such a package requires; else a warning.

    ## Fix safety
    Installs all of them again in the same versions. What else is wrong with them can be read only after that.
    """
    found = needed_first(situation, (one for one in situation.machine.packages if one.unlinked))
    if not found:
        return
    named = enumeration([f"{one.name} {one.version}" for one in found], _MOST_NAMED)
    yield Finding(
        severity="error" if found[0].name in needed_packages(situation) else "warning",
        message=f"The files of {named} are links that lead nowhere: the cache from which they were "
        "installed is gone.",
        saw=f"{len(found)} package{'s' * (len(found) > 1)} of links that lead nowhere",
        want="packages with their files",
        subject=f"{found[0].name} {found[0].version}",
        evidence=tuple(Evidence(one.name, "links that lead nowhere", one.path) for one in found[:10]),
        fixes=(Fix("Install these packages again", all_again(situation, found, "its files are gone")),),
        supersedes=("torch-import-fails", "torch-missing", "torch-install-damaged", "python-dev-missing", "no-gpu"),
    )
