"""Python environments of an image: on PATH or not, copied whole or in parts, open to the user or not."""

from __future__ import annotations

import pytest

from tests.test_dockerfile import findings, lines

BUILD = "FROM python:3.11-slim AS build\n"
VENV = BUILD + "RUN python -m venv /opt/venv\nRUN /opt/venv/bin/pip install torch uvicorn\n"
COPY = "COPY --from=build /opt/venv /opt/venv\n"
ON_PATH = "ENV PATH=/opt/venv/bin:$PATH\n"
SLIM = "FROM python:3.11-slim\n"
CUDA = "FROM nvidia/cuda:12.8.1-runtime-ubuntu24.04\n"
START = 'CMD ["python", "app.py"]\n'
SERVE = 'CMD ["uvicorn", "app:app"]\n'
UV = "COPY --from=ghcr.io/astral-sh/uv:0.9.17 /uv /uvx /bin/\n"
SITE = "/usr/local/lib/python3.11/site-packages"
PIP = BUILD + "RUN pip install torch uvicorn\n"
SITE_COPY = f"COPY --from=build {SITE} {SITE}\n"
BIN_COPY = "COPY --from=build /usr/local/bin /usr/local/bin\n"


def found(text: str, slug: str) -> list[str]:
    return [one.message for one in findings(text) if one.slug == slug]


def all_of_this_file(text: str) -> list[str]:
    slugs = ("image-environment-off-path", "image-environment-incomplete", "image-user-without-access")
    return [one.message for one in findings(text) if one.slug in slugs]


OFF_PATH = {
    "in the last stage": VENV + SLIM + COPY + START,
    "PATH of the build stage": VENV + ON_PATH + SLIM + COPY + START,
    "in one stage, activated": SLIM + "RUN python -m venv /v && . /v/bin/activate && pip install torch\n" + START,
    "by source": SLIM + 'SHELL ["/bin/bash", "-c"]\nRUN python3 -m venv /v\nRUN source /v/bin/activate && '
    "pip install torch\n" + START,
    "by export": SLIM + "RUN python -m venv /v && export PATH=/v/bin:$PATH && pip install torch\n" + START,
    "VIRTUAL_ENV alone": SLIM + UV + "RUN uv venv /v\nENV VIRTUAL_ENV=/v\nRUN uv pip install torch\n" + START,
    "uv's .venv": SLIM + UV + "WORKDIR /app\nRUN uv venv\nRUN uv pip install torch\n" + START,
    "a command": VENV + SLIM + COPY + SERVE,
    "a shell form": VENV + SLIM + COPY + "CMD python app.py\n",
    "behind a preflight": VENV + SLIM + COPY + 'ENTRYPOINT ["gpudoctor", "preflight", "--"]\n' + START,
    "a shell with one command": VENV + SLIM + COPY + 'ENTRYPOINT ["/bin/bash", "-c"]\nCMD ["exec python app.py"]\n',
    "behind tini": VENV + SLIM + COPY + 'ENTRYPOINT ["tini", "--"]\n' + START,
    "torchrun": VENV + SLIM + COPY + 'CMD ["torchrun", "train.py"]\n',
    "an environment of conda": "FROM condaforge/miniforge3 AS build\nRUN conda create -y -n app python=3.12 && "
    "conda run -n app pip install torch\nFROM debian:bookworm-slim\n"
    "COPY --from=build /opt/conda/envs/app /opt/conda/envs/app\n" + START,
    "poetry's .venv": BUILD
    + "ENV POETRY_VIRTUALENVS_IN_PROJECT=1\nWORKDIR /app\nRUN poetry install && poetry run pip "
    "list\nRUN .venv/bin/pip install torch\n" + SLIM + "COPY --from=build /app/.venv /app/.venv\n" + START,
    "what a module of the standard library runs": VENV + SLIM + COPY + 'CMD ["python", "-m", "cProfile", "app.py"]\n',
    "by .bashrc": SLIM
    + "RUN python -m venv /v && /v/bin/pip install torch && echo '. /v/bin/activate' >> ~/.bashrc\n"
    + START,
    "the system's by its path": VENV + SLIM + COPY + 'CMD ["/usr/local/bin/python", "app.py"]\n',
    "moved": VENV + SLIM + "COPY --from=build /opt/venv /app/venv\n" + START,
}
ON = {
    "ENV PATH": VENV + SLIM + COPY + ON_PATH + START,
    "by its path": VENV + SLIM + COPY + 'CMD ["/opt/venv/bin/python", "app.py"]\n',
    "uv run": SLIM + UV + "WORKDIR /app\nRUN uv venv\nRUN uv pip install torch\n" + 'CMD ["uv", "run", "app.py"]\n',
    "a script that activates": VENV + SLIM + COPY + 'CMD ["./start.sh"]\n',
    "a shell that activates": VENV + SLIM + COPY + "CMD . /opt/venv/bin/activate && python app.py\n",
    "torch in both": VENV + SLIM + COPY + "RUN pip install torch\n" + START,
    "no start": VENV + SLIM + COPY,
    "conda run": "FROM condaforge/miniforge3:latest\nRUN conda create -y -n app python=3.12 && conda run -n app pip "
    'install torch\nCMD ["conda", "run", "-n", "app", "python", "app.py"]\n',
    "an environment of conda on PATH": "FROM condaforge/miniforge3:latest AS build\nRUN conda create -y -n app "
    "python=3.12 && conda run -n app pip install torch\nFROM debian:bookworm-slim\n"
    "COPY --from=build /opt/conda/envs/app /opt/conda/envs/app\nENV PATH=/opt/conda/envs/app/bin:$PATH\n" + START,
    "a program with an environment of its own": VENV + SLIM + COPY + "RUN python -m venv /opt/handler && "
    "/opt/handler/bin/pip install runpod\nENV PATH=/opt/handler/bin:$PATH\n" + START,
    "a shell with two commands": VENV + SLIM + COPY
    + 'CMD ["sh", "-c", ". /opt/venv/bin/activate; python app.py"]\n',
    "a login shell": VENV + SLIM + COPY + 'CMD ["bash", "-lc", "python app.py"]\n',
    "another program": VENV + SLIM + COPY + 'CMD ["nginx"]\n',
    "a module of the standard library": VENV + SLIM + COPY + 'CMD ["python", "-m", "http.server", "8000"]\n',
    "the base image's torch": "FROM pytorch/pytorch\nRUN python -m venv /v && /v/bin/pip install torch\n" + START,
    "PYTHONPATH": VENV + SLIM + COPY + "ENV PYTHONPATH=/opt/venv/lib/python3.11/site-packages\n" + START,
    "a folder of PATH with a slash at its end": VENV + SLIM + COPY + "ENV PATH=/opt/venv/bin/:$PATH\n" + START,
    "a shell that conda starts": "FROM condaforge/miniforge3\nRUN conda create -y -n app python=3.12 && "
    'conda run -n app pip install torch\nSHELL ["conda", "run", "-n", "app", "/bin/bash", "-c"]\nCMD python app.py\n',
    "a shell as at login": VENV + SLIM + COPY + 'SHELL ["/bin/bash", "-lc"]\nCMD python app.py\n',
    "a link to its python": VENV + SLIM + COPY + "RUN ln -sf /opt/venv/bin/python /usr/local/bin/python\n" + START,
    "a link to its command": VENV + SLIM + COPY + "RUN ln -s /opt/venv/bin/uvicorn /usr/bin/\n" + SERVE,
    "an alternative": VENV
    + SLIM
    + COPY
    + "RUN update-alternatives --install /usr/bin/python python /opt/venv/bin/python 1\n"
    + START,
    "a path file": VENV + SLIM + COPY + f"RUN echo /opt/venv/lib/python3.11/site-packages > {SITE}/v.pth\n" + START,
    "PATH of env": VENV + SLIM + COPY + 'CMD ["env", "PATH=/opt/venv/bin:/usr/bin", "python", "app.py"]\n',
    "PATH of the command": VENV + SLIM + COPY + "CMD PATH=/opt/venv/bin:$PATH exec python app.py\n",
    "PATH that the command exports": VENV + SLIM + COPY + "CMD export PATH=/opt/venv/bin:$PATH && python app.py\n",
    "it is named": VENV
    + SLIM
    + COPY
    + 'CMD ["python", "-c", "exec(open(\'/opt/venv/bin/activate_this.py\').read()); import app"]\n',
    "micromamba's variable": "FROM mambaorg/micromamba\nRUN micromamba create -y -n gpu python=3.12 && "
    "micromamba run -n gpu pip install torch\nENV ENV_NAME=gpu\n" + START,
    "uv's project in the image's own Python": SLIM + UV + "ENV UV_PROJECT_ENVIRONMENT=/usr/local\nWORKDIR /app\n"
    "RUN uv add torch\n" + START,
    "uv's project in the active environment": SLIM + UV + "RUN python -m venv /v\nENV VIRTUAL_ENV=/v\n"
    "ENV PATH=/v/bin:$PATH\nWORKDIR /app\nRUN uv add --active torch\n" + START,
    "uv into the system": SLIM + UV + "ENV UV_SYSTEM_PYTHON=1\nRUN uv pip install torch\n" + START,
    "a venv of gpudoctor": SLIM + "RUN python -m venv /g && /g/bin/pip install gpudoctor-cli\nRUN pip install torch\n"
    + START,
    "a prefix": BUILD + "RUN pip install --prefix=/install torch\n" + SLIM + "COPY --from=build /install /usr/local\n"
    + START,
}  # fmt: skip


@pytest.mark.parametrize("name", OFF_PATH)
def test_an_environment_that_the_container_does_not_start_is_reported(name: str):
    assert len(found(OFF_PATH[name], "image-environment-off-path")) == 1


@pytest.mark.parametrize("name", ON)
def test_an_environment_that_the_container_starts_is_fine(name: str):
    assert all_of_this_file(ON[name]) == []


def test_path_is_set_where_the_environment_is_there():
    finding = next(one for one in findings(OFF_PATH["in the last stage"]) if one.slug == "image-environment-off-path")
    assert lines(finding) == "Dockerfile:5: below it\nENV PATH=/opt/venv/bin:$PATH"


IN_VENV = SLIM + "RUN python -m venv /opt/venv && /opt/venv/bin/pip install torch uvicorn\nCOPY start.sh /\n"
RUNNING = IN_VENV + 'ENTRYPOINT ["/start.sh"]\n'
SCRIPTS_OFF_PATH = {
    "a command": (RUNNING, "#!/bin/sh\nset -e\nexec uvicorn app:app\n", "start.sh:3: /opt/venv/bin/uvicorn"),
    "a python": (RUNNING, "cd /app\npython app.py\n", "start.sh:2: /opt/venv/bin/python"),
    "by CMD": (IN_VENV + "CMD bash ./start.sh\n", "python app.py\n", "start.sh:1: /opt/venv/bin/python"),
    "the words of CMD": (RUNNING + START, 'mkdir -p /data\nexec "$@"\n', "start.sh:2: /opt/venv/bin/python"),
    "behind a preflight": (RUNNING + START, 'exec gpudoctor preflight -- "$@"\n', "start.sh:1: /opt/venv/bin/py"),
}  # fmt: skip
SCRIPTS_ON = {
    "it activates": ". /opt/venv/bin/activate\nexec uvicorn app:app\n",
    "it may activate": "if [ -f /opt/venv/bin/activate ]; then . /opt/venv/bin/activate; fi\npython app.py\n",
    "PATH": 'export PATH="/opt/venv/bin:$PATH"\nexec python app.py\n',
    "PATH under a condition": "[ -d /opt/venv ] && PATH=/opt/venv/bin:$PATH\nexec python app.py\n",
    "an unknown environment": "export PATH=$VENV/bin:$PATH\npython app.py\n",
    "another file": ". /etc/app.env\npython app.py\n",
    "by its path": "exec /opt/venv/bin/uvicorn app:app\n",
    "a helper before": "python wait_for_db.py\n/opt/venv/bin/python app.py\n",
    "packages": "export PYTHONPATH=/opt/venv/lib/python3.11/site-packages\npython app.py\n",
    "a text": "cat > /etc/x <<EOF\npython app.py\nEOF\nexec nginx\n",
    "conda": 'eval "$(conda shell.bash hook)"\nconda activate app\npython app.py\n',
    "uv": "exec uv run app.py\n",
    "another command": 'exec nginx -g "daemon off;"\n',
}


@pytest.mark.parametrize("name", SCRIPTS_OFF_PATH)
def test_a_start_script_that_passes_over_the_environment_is_reported_at_its_line(name: str):
    text, script, fix = SCRIPTS_OFF_PATH[name]
    (finding,) = findings(text, {"start.sh": script})
    assert finding.slug == "image-environment-off-path"
    assert finding.fixes[1].remedies[0].text.startswith(fix)  # type: ignore[union-attr]


@pytest.mark.parametrize("name", SCRIPTS_ON)
def test_a_start_script_that_may_choose_the_environment_is_fine(name: str):
    assert findings(RUNNING, {"start.sh": SCRIPTS_ON[name]}) == []


INCOMPLETE = {
    "another base image": VENV + CUDA + COPY + ON_PATH + START,
    "the distribution's other Python": VENV + CUDA + "RUN apt-get install -y python3\n" + COPY + ON_PATH + START,
    "another version": VENV + "FROM python:3.12-slim\n" + COPY + ON_PATH + START,
    "uv's Python left behind": CUDA.replace("\n", " AS build\n") + UV + "RUN uv venv /opt/venv --python 3.12 && "
    "uv pip install --python /opt/venv/bin/python torch\n" + CUDA + COPY + ON_PATH + START,
    "libraries for glibc in Alpine": BUILD + "RUN python -m venv /opt/venv && /opt/venv/bin/pip install jax\n"
    "FROM python:3.11-alpine\n" + COPY + ON_PATH + START,
    "a preflight that is not in the environment": BUILD + "RUN pip install gpudoctor-cli\n"
    "RUN python -m venv /opt/venv && /opt/venv/bin/pip install torch\n" + SLIM + COPY + ON_PATH
    + 'ENTRYPOINT ["gpudoctor", "preflight", "--"]\n' + START,
    "an environment that a second command fills": CUDA.replace("\n", " AS build\n") + UV + "WORKDIR /app\nENV "
    "UV_PYTHON=3.13\nRUN uv sync --no-install-project\nRUN uv sync\n" + CUDA + "COPY --from=build /app /app\n"
    + 'CMD ["/app/.venv/bin/python", "app.py"]\n',
    "the distribution's Python, and none here": "FROM ubuntu:24.04 AS build\nRUN apt-get install -y python3-venv\n"
    "RUN python3 -m venv /opt/venv && /opt/venv/bin/pip install torch\nFROM ubuntu:24.04\n" + COPY + ON_PATH + START,
    "packages of another version": PIP + "FROM python:3.12-slim\n" + SITE_COPY + START,
    "renamed packages of another version": PIP + "FROM python:3.12-slim\n"
    f"COPY --from=build {SITE} /usr/local/lib/python3.12/site-packages\n" + START,
    "a folder that Debian's Python does not read": PIP + "FROM debian:bookworm-slim\n"
    "RUN apt-get install -y python3\n" + SITE_COPY + 'CMD ["python3", "app.py"]\n',
    "no commands, with the library": PIP + SLIM + "COPY --from=build /usr/local/lib /usr/local/lib\n" + SERVE,
    "no commands": PIP + SLIM + SITE_COPY + SERVE,
    "torch alone": PIP + SLIM + f"COPY --from=build {SITE}/torch {SITE}/torch\n" + START,
    "commands of another place, by their path": BUILD + "WORKDIR /srv\nRUN python -m venv env && env/bin/pip install "
    "torch uvicorn\n" + SLIM + "COPY --from=build /srv /app\nWORKDIR /app\n"
    + 'CMD ["env/bin/uvicorn", "app:app"]\n',
    "commands of another place": VENV + SLIM + "COPY --from=build /opt/venv /app/venv\n"
    "ENV PATH=/app/venv/bin:$PATH\n" + SERVE,
}  # fmt: skip
COMPLETE = {
    "the same base image": VENV + SLIM + COPY + ON_PATH + START,
    "an image of the same Python": VENV + "FROM python:3.11-slim-bookworm\n" + COPY + ON_PATH + START,
    "uv's image of the same Python": "FROM ghcr.io/astral-sh/uv:python3.11-bookworm-slim AS build\nRUN uv venv "
    "/opt/venv\nRUN uv pip install --python /opt/venv/bin/python torch\n" + SLIM + COPY + ON_PATH + START,
    "with its Python": VENV + CUDA + "COPY --from=build /usr/local /usr/local\n" + COPY + ON_PATH + START,
    "with uv's Python": CUDA.replace("\n", " AS build\n") + UV + "ENV UV_PYTHON_INSTALL_DIR=/python\nRUN uv venv "
    "/opt/venv --python 3.12\nRUN uv pip install --python /opt/venv/bin/python torch\n" + CUDA
    + "COPY --from=build /python /python\n" + COPY + ON_PATH + START,
    "a Python that is built": VENV + CUDA + "RUN ./configure && make altinstall\n" + COPY + ON_PATH + START,
    "another Python of a repository": VENV + CUDA + "RUN add-apt-repository ppa:deadsnakes/ppa && apt-get install -y "
    "python3.11 && ln -s /usr/bin/python3.11 /usr/local/bin/python3.11\n" + COPY + ON_PATH + START,
    "the distribution's Python": "FROM ubuntu:24.04 AS build\nRUN apt-get install -y python3-venv\n"
    "RUN python3 -m venv /opt/venv && /opt/venv/bin/pip install torch\nFROM ubuntu:24.04\n"
    "RUN apt-get install -y --no-install-recommends python3\n" + COPY + ON_PATH + START,
    "an unknown base image": VENV + "FROM example.org/base:1\n" + COPY + ON_PATH + START,
    "Debian's Python, told where": PIP + "FROM debian:bookworm-slim\nRUN apt-get install -y python3\n" + SITE_COPY
    + f"ENV PYTHONPATH={SITE}\n" + 'CMD ["python3", "app.py"]\n',
    "Debian's own folder": PIP + "FROM debian:bookworm-slim\nRUN apt-get install -y python3\n"
    f"COPY --from=build {SITE} /usr/local/lib/python3.11/dist-packages\n" + 'CMD ["python3", "app.py"]\n',
    "packages and commands": PIP + SLIM + SITE_COPY + BIN_COPY + SERVE,
    "packages and python": PIP + SLIM + SITE_COPY + START,
    "the command alone": PIP + SLIM + SITE_COPY + "COPY --from=build /usr/local/bin/uvicorn /usr/bin/\n" + SERVE,
    "commands by a pattern": PIP + SLIM + SITE_COPY + "COPY --from=build /usr/local/bin/uv* /usr/bin/\n" + SERVE,
    "at its own place, too": BUILD + "WORKDIR /srv\nRUN python -m venv env && env/bin/pip install torch uvicorn\n"
    + SLIM + "COPY --from=build /srv /app\nCOPY --from=build /srv/env /srv/env\nWORKDIR /app\n"
    + 'CMD ["env/bin/uvicorn", "app:app"]\n',
    "all of /usr/local": PIP + SLIM + "COPY --from=build /usr/local /usr/local\n" + SERVE,
    "a command as a module": PIP + SLIM + SITE_COPY + 'CMD ["python", "-m", "uvicorn", "app:app"]\n',
    "a program by its path": VENV + SLIM + COPY + "WORKDIR /opt\n" + 'CMD ["venv/bin/uvicorn", "app:app"]\n',
    "a preflight in the environment": BUILD + "RUN pip install gpudoctor-cli && python -m venv /opt/venv && "
    "/opt/venv/bin/pip install torch gpudoctor-cli\n" + SLIM + COPY + ON_PATH
    + 'ENTRYPOINT ["gpudoctor", "preflight", "--"]\n' + START,
    "a preflight that is installed here": VENV + SLIM + COPY + ON_PATH + "RUN pip install gpudoctor-cli\n"
    'ENTRYPOINT ["gpudoctor", "preflight", "--"]\n' + START,
    "packages of Python alone in Alpine": BUILD + "RUN python -m venv /opt/venv && /opt/venv/bin/pip install flask\n"
    "FROM python:3.11-alpine\n" + COPY + ON_PATH + START,
    "an environment of Alpine in Alpine": "FROM python:3.11-alpine AS build\nRUN python -m venv /opt/venv && "
    "/opt/venv/bin/pip install fastapi\nFROM python:3.11-alpine3.22\n" + COPY + ON_PATH + START,
    "a package that requires the distribution's Python": "FROM ubuntu:24.04 AS build\nRUN apt-get install -y "
    "python3-venv\nRUN python3 -m venv /opt/venv && /opt/venv/bin/pip install torch\nFROM ubuntu:24.04\n"
    "RUN apt-get install -y software-properties-common\n" + COPY + ON_PATH + START,
    "moved, and its python": VENV + SLIM + "COPY --from=build /opt/venv /app/venv\n"
    'CMD ["/app/venv/bin/python", "app.py"]\n',
}  # fmt: skip


@pytest.mark.parametrize("name", INCOMPLETE)
def test_a_copied_environment_that_lacks_a_part_is_reported(name: str):
    assert len(found(INCOMPLETE[name], "image-environment-incomplete")) == 1


@pytest.mark.parametrize("name", COMPLETE)
def test_a_copied_environment_that_is_whole_is_fine(name: str):
    assert all_of_this_file(COMPLETE[name]) == []


PROJECT = '[project]\nname = "app"\nrequires-python = "{}"\ndependencies = ["torch"]\n'
SYNCED = (
    BUILD
    + UV
    + "WORKDIR /app\nCOPY .python-version pyproject.toml ./\nRUN uv sync\n"
    + SLIM
    + "COPY --from=build /app/.venv /app/.venv\n"
)
PINNED = {
    "another version": (SYNCED, ">=3.10", "3.12\n", True),
    "the same version": (SYNCED, ">=3.10", "3.11\n", False),
    "a patch of it": (SYNCED, ">=3.10", "3.11.9\n", False),
    "a newer one by the project": (SYNCED, ">=3.12", "", True),
    "a patch by the project": (SYNCED, ">=3.11.4,<3.12", "", False),
    "an older one by the project": (SYNCED, ">=3.9,<3.13", "", False),
    "a variable counts": (SYNCED.replace("RUN uv", "ENV UV_PYTHON=3.11\nRUN uv"), ">=3.10", "3.12\n", False),
    "no download": (SYNCED.replace("RUN uv", "ENV UV_PYTHON_DOWNLOADS=never\nRUN uv"), ">=3.10", "3.12\n", False),
    "copied, too": (SYNCED + "COPY --from=build /root/.local/share/uv /root/.local/share/uv\n", "", "3.12\n", False),
}


@pytest.mark.parametrize("name", PINNED)
def test_the_python_that_a_project_asks_of_uv_is_needed_with_its_environment(name: str):
    text, versions, pin, lacks = PINNED[name]
    files = {"pyproject.toml": PROJECT.format(versions), ".python-version": pin}
    told = [one.message for one in findings(text + START, files) if one.slug == "image-environment-incomplete"]
    assert len(told) == lacks
    assert not lacks or "/root/.local/share/uv/python of stage build" in told[0]


@pytest.mark.parametrize(
    ("pin", "titles"),
    [
        ("3.12\n", ["Copy the interpreter, too"]),  # no base image of the file has it
        ("", []),
    ],
)
def test_a_python_that_uv_downloaded_is_copied(pin: str, titles: list[str]):
    files = {"pyproject.toml": PROJECT.format(">=3.10"), ".python-version": pin}
    found = [one for one in findings(SYNCED + START, files) if one.slug == "image-environment-incomplete"]
    assert [fix.title for one in found for fix in one.fixes] == titles


ROOTS = SLIM + "RUN python -m venv /root/venv\nENV PATH=/root/venv/bin:$PATH\nRUN pip install torch\n"
USER = "RUN useradd -m app\nUSER app\n"
CLOSED = {
    "an environment": ROOTS + USER + START,
    "by its path": SLIM
    + "RUN python -m venv /root/v && /root/v/bin/pip install torch\n"
    + USER
    + 'CMD ["/root/v/bin/python", "app.py"]\n',
    "by a number": ROOTS + "USER 1000:1000\n" + START,
    "beside another name of root": ROOTS + "RUN useradd -o -u 0 toor && useradd -u 1000 -m app\nUSER app\n" + START,
    "in the group of root": ROOTS + "RUN useradd -u 1000 -g 0 -m app\nUSER app\n" + START,
    "uv's Python": CUDA + UV + "RUN uv venv --python 3.12 /app/.venv\nENV PATH=/app/.venv/bin:$PATH\n"
    "RUN uv pip install torch\n" + USER + START,
    "a cache": SLIM + "ENV HF_HOME=/root/.cache/huggingface\nRUN pip install torch\n" + USER + START,
    "packages of root": BUILD
    + "RUN pip install --user torch\n"
    + SLIM
    + "COPY --from=build /root/.local /root/.local\n"
    + USER
    + START,
    "a folder that WORKDIR made": SLIM + "WORKDIR /app\nUSER 1000\nRUN python -m venv .venv\n",
    "a folder that COPY made": SLIM + "COPY . /app/\n" + USER + "WORKDIR /app\nRUN python -m venv .venv\n",
    "the same, by uv": SLIM + UV + "WORKDIR /app\n" + USER + "RUN uv venv\n",
}
OPEN = {
    "root": ROOTS + START,
    "a folder of a build tool": SLIM + "ENV CARGO_HOME=/root/.cargo\nRUN pip install torch\n" + USER + START,
    "root again": ROOTS + USER + "RUN pip list\nUSER root\n" + START,
    "root by another name": ROOTS + "RUN useradd app -m -o -u 0 -g 0\nUSER app\n" + START,
    "the same, in Alpine": ROOTS + "RUN adduser -D --uid=0 app\nUSER app\n" + START,
    "chmod": ROOTS + "RUN chmod 711 /root\n" + USER + START,
    "elsewhere": SLIM + "RUN python -m venv /v\nENV PATH=/v/bin:$PATH\nRUN pip install torch\n" + USER + START,
    "uv's Python elsewhere": CUDA + UV + "ENV UV_PYTHON_INSTALL_DIR=/python\nRUN uv venv --python 3.12 /app/.venv\n"
    "ENV PATH=/app/.venv/bin:$PATH\nRUN uv pip install torch\n" + USER + START,
    "uv and the image's Python": SLIM + UV + "RUN uv venv /app/.venv\nENV PATH=/app/.venv/bin:$PATH\n"
    "RUN uv pip install torch\n" + USER + START,
    "the user's own uv": CUDA + UV + USER + "WORKDIR /home/app\nRUN uv venv --python 3.12\n"
    "RUN uv pip install torch\n" + 'CMD ["/home/app/.venv/bin/python", "app.py"]\n',
    "an open user": ROOTS + "ARG WHO\nUSER $WHO\n" + START,
    "a folder of the user": SLIM
    + "RUN mkdir /app && chown 1000 /app\nWORKDIR /app\nUSER 1000\nRUN python -m venv .v\n",
    "a home": SLIM + "RUN useradd -m app\nUSER app\nWORKDIR /home/app\nRUN python -m venv .venv\n",
    "a folder that WORKDIR made for the user": SLIM + USER + "WORKDIR /app\nRUN python -m venv .venv\n",
    "packages of the user": BUILD + "RUN pip install --user torch\n" + SLIM + "RUN useradd -m app\n"
    "COPY --from=build --chown=app /root/.local /home/app/.local\nUSER app\n" + START,
    "packages of root, and root": BUILD
    + "RUN pip install --user torch\n"
    + SLIM
    + "COPY --from=build /root/.local /root/.local\n"
    + START,
    "COPY --chown": SLIM + "WORKDIR /app\nCOPY --chown=1000 . /app\nUSER 1000\nRUN python -m venv .venv\n",
}


@pytest.mark.parametrize("name", CLOSED)
def test_a_folder_of_root_that_the_user_needs_is_reported(name: str):
    assert len(found(CLOSED[name], "image-user-without-access")) == 1


@pytest.mark.parametrize("name", OPEN)
def test_a_folder_that_is_open_to_the_user_is_fine(name: str):
    assert all_of_this_file(OPEN[name]) == []


def test_the_interpreter_moves_with_the_environment():
    text = (
        CUDA + UV + "RUN uv venv --python 3.12 /root/v\nENV PATH=/root/v/bin:$PATH\nRUN uv pip install torch\n" + USER
    )
    finding = next(one for one in findings(text + START) if one.slug == "image-user-without-access")
    assert lines(finding) == (
        "Dockerfile:3: above it\nENV UV_PYTHON_INSTALL_DIR=/opt/python\n"
        "Dockerfile:3: RUN uv venv --python 3.12 /opt/venv\nDockerfile:4: ENV PATH=/opt/venv/bin:$PATH"
    )


def test_a_definition_copies_in_its_own_words():
    text = (
        "Bootstrap: docker\nFrom: ubuntu:24.04\nStage: build\n\n%post\n"
        "    uv venv --python 3.12 /opt/venv\n    uv pip install --python /opt/venv/bin/python torch==2.8.0\n\n"
        "Bootstrap: docker\nFrom: ubuntu:22.04\nStage: final\n\n%files from build\n    /opt/venv /opt/venv\n"
        '\n%environment\n    export PATH=/opt/venv/bin:$PATH\n\n%runscript\n    exec python "$@"\n'
    )
    (found,) = [one for one in findings(text) if one.slug == "image-environment-incomplete"]
    assert lines(found) == (
        "Dockerfile:14: below it\n%files from build\n    /root/.local/share/uv/python /root/.local/share/uv/python"
    )
