"""What to write into a project's own file, so that its tool takes another torch."""

from __future__ import annotations

from collections.abc import Sequence

from gpudoctor.frameworks.package_spec import PackageSpec

_FILES = {"uv": "pyproject.toml", "pdm": "pyproject.toml", "pipenv": "Pipfile", "pixi": "pixi.toml"}
_LOCKS = {"uv": "uv lock", "pdm": "pdm lock", "pipenv": "pipenv lock", "pixi": "pixi lock"}
_UV = """
[tool.uv.sources]
{sources}
[[tool.uv.index]]
name = "torch-{build}"
url = "{url}"
explicit = true"""
_PDM = """
in dependencies: {texts}
[[tool.pdm.source]]
name = "torch-{build}"
url = "{url}"
include_packages = [{names}]"""
_PIPENV = """
[[source]]
name = "torch-{build}"
url = "{url}"
verify_ssl = true
in [packages]:"""


def project_lines(
    tool: str, version: str, build: str, url: str, wanted: Sequence[PackageSpec], locked: bool, sourced: bool = False
) -> list[str]:
    """The lines for uv, pdm, pipenv or pixi. `wanted` are torch and its companions; `sourced`: the file has sources
    of torch."""
    heading = f"take torch {version} from {url or 'the package index'} in {_FILES[tool]}"
    replaced = ", in place of its sources of torch" * sourced
    admits = f"; what it requires must admit torch=={version}{f'+{build}' if url else ''}" * locked
    heading += f" ([tool.uv.sources]{replaced}{admits})" * (tool == "uv") + f", and run `{_LOCKS[tool]}`" * locked
    if not url:
        return [heading]
    if tool == "pixi":
        lines = ["[pypi-dependencies]"]
        lines += [f'{one.name} = {{ version = "{_specifier(one)}", index = "{url}" }}' for one in wanted]
    elif tool == "pipenv":
        lines = _PIPENV.format(build=build, url=url).split("\n")
        lines += [f'{one.name} = {{version = "{_specifier(one)}", index = "torch-{build}"}}' for one in wanted]
    else:
        texts = ", ".join(f'"{one.text}"' for one in wanted)
        names = ", ".join(f'"{one.name}"' for one in wanted)
        own = {"build": build, "url": url, "texts": texts, "names": names}
        own["sources"] = "\n".join(f'{one.name} = {{ index = "torch-{build}" }}' for one in wanted)
        lines = (_UV if tool == "uv" else _PDM).format(**own).split("\n")
    return [heading, *lines]


def _specifier(one: PackageSpec) -> str:
    return one.text.removeprefix(one.name)
