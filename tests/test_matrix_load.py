"""Reading matrix files: the project's own, overlays of a site, and whatever else somebody names."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gpudoctor.host import InputError
from gpudoctor.matrix.files import yaml_path
from gpudoctor.matrix.load import load_matrix, to_stored, validate_matrix
from gpudoctor.matrix.rows import Tables
from gpudoctor.matrix.source import MatrixError, load_yaml
from gpudoctor.matrix.stored import Stored, opened
from gpudoctor.safe_arguments import is_index

BUILD = '{version: "2.9.1", build: cu128, origin: download.pytorch.org, platform: linux-x86_64, cuda: "12.8"'


@pytest.fixture
def overlay(tmp_path: Path):  # type: ignore[no-untyped-def]
    def write(text: str | bytes) -> Path:
        path = tmp_path / "site.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


@cache
def own_tables() -> Tables:
    """What the project's YAML holds, read once."""
    return load_yaml(yaml_path())


@cache
def own_stored() -> bytes:
    """The same as a wheel has it."""
    return to_stored(yaml_path())


def refused(path: Path) -> str:
    with pytest.raises(MatrixError) as caught:
        load_matrix([path])
    assert isinstance(caught.value, InputError)
    text = str(caught.value)
    assert str(path) in text and "\n" not in text and len(text) < 600
    return text


def test_the_projects_own_matrix_is_valid() -> None:
    tables = own_tables()
    assert len(tables.nvidia_gpus) > 900 and len(tables.torch_builds) > 280


def test_every_row_has_a_source_and_a_date() -> None:
    tables = own_tables()
    for name in ("nvidia_gpus", "torch_builds", "known_issues", "log_patterns", "xids", "rocm_blas"):
        assert all(row.source and row.checked for row in getattr(tables, name)), name


def test_the_stored_form_says_the_same(tmp_path: Path) -> None:
    path = tmp_path / "compat_matrix.msgpack"
    path.write_bytes(own_stored())
    stored = Stored(str(path))
    assert stored.names == Tables.__struct_fields__
    assert stored.table("known_issues") == own_tables().known_issues
    assert stored.tables() == own_tables()


def test_a_stored_form_that_was_cut_is_no_matrix(tmp_path: Path) -> None:
    path, whole = tmp_path / "compat_matrix.msgpack", own_stored()
    for cut in (b"", b"{}\n", whole[:4], whole[:-1], whole[: len(whole) // 2], whole.replace(b"xids", b"xid", 1)):
        path.write_bytes(cut)
        with pytest.raises(ValueError):
            Stored(str(path))


def test_a_stored_form_with_other_tables_is_none_of_this_gpudoctor(tmp_path: Path) -> None:
    path = tmp_path / "compat_matrix.msgpack"
    path.write_bytes(own_stored().replace(b"xids", b"xidz"))
    with pytest.raises(ValueError, match="not the tables of this gpudoctor"):
        Stored(str(path)).tables()


@pytest.mark.parametrize("moved", [(b"gpus.NvidiaGpu", b"gpuz.NvidiaGpu"), (b"gpus.NvidiaGpu", b"gpus.NvidiaGpx")])
def test_rows_that_moved_since_a_stored_form_was_made_are_none_of_this_gpudoctor(
    tmp_path: Path, moved: tuple[bytes, bytes]
) -> None:
    path = tmp_path / "compat_matrix.msgpack"
    path.write_bytes(own_stored().replace(*moved))
    with pytest.raises(ValueError, match="no rows of kind"):
        Stored(str(path)).tables()


@pytest.mark.parametrize(
    ("there", "damage"),
    [(b"GeForce RTX 5090", b"\xff" * 16), (b"\xa5xids", b"\xa5xidz"), (b"gpus.NvidiaGpu", b"gpuz.NvidiaGpu")],
    ids=["garbage in a table", "a name that is none", "rows that moved"],
)
def test_a_damaged_table_of_a_wheel_comes_from_the_yaml(tmp_path: Path, there: bytes, damage: bytes) -> None:
    path = tmp_path / "compat_matrix.msgpack"
    path.write_bytes(own_stored().replace(there, damage))
    tables = opened(Stored(str(path)), own_tables)
    assert tables.nvidia_gpus == own_tables().nvidia_gpus
    assert tables.xids == own_tables().xids


def test_an_overlay_replaces_a_row_and_adds_one(overlay) -> None:  # type: ignore[no-untyped-def]
    before = load_matrix()
    path = overlay(
        "torch_builds:\n"
        f"  - {BUILD}, archs: [sm_90], pythons: ['3.12']}}\n"
        "  - {version: '9.9.0', build: cpu, origin: pypi, platform: linux-x86_64, archs: []}\n"
        "nvidia_gpus:\n"
        "  rows:\n"
        "    - {pci: ffff, chip: GB202, name: GeForce RTX 9999}\n"
    )
    after = load_matrix([path])
    assert len(after.tables.torch_builds) == len(before.tables.torch_builds) + 1
    changed = [
        row.archs
        for row in after.tables.torch_builds
        if (row.version, row.build, row.origin, row.platform)
        == ("2.9.1", "cu128", "download.pytorch.org", "linux-x86_64")
    ]
    assert changed == [("sm_90",)]
    gpu = after.gpus.gpu_by_pci("10de:ffff")
    assert gpu is not None and gpu.arch == "sm_120"
    assert after.tables.version == before.tables.version


def test_an_overlay_names_a_mirror(overlay) -> None:  # type: ignore[no-untyped-def]
    matrix = load_matrix([overlay("wheel_index: {base: 'https://mirror.example/whl'}\n")])
    build = next(
        row for row in matrix.torch.builds() if row.build == "cu128" and row.origin == "download.pytorch.org"
    )
    assert matrix.torch.index_url(build) == "https://mirror.example/whl/cu128"
    assert matrix.tables.nvidia_gpus


@pytest.mark.parametrize(
    ("base", "index"),
    [
        ("https://MIRROR.Example:8443/whl/", "https://MIRROR.Example:8443/whl/cu128"),
        ("http://[::1]:8080", "http://[::1]:8080/cu128"),
        ("https://user:secret@mirror.example/whl", "https://user:secret@mirror.example/whl/cu128"),
        ("file:///srv/wheels", "file:///srv/wheels/cu128"),
        ("/srv/wheels/", "file:///srv/wheels/cu128"),
        ("/srv/my wheels/\u00e4", "file:///srv/my%20wheels/%C3%A4/cu128"),
    ],
)
def test_a_mirror_may_be_what_pip_and_uv_take(overlay, base: str, index: str) -> None:  # type: ignore[no-untyped-def]
    loaded = load_matrix([overlay(f"wheel_index: {{base: '{base}'}}\n")])
    row = next(row for row in loaded.torch.builds("linux-x86_64") if row.build == "cu128" and row.origin != "pypi")
    assert loaded.torch.index_url(row) == index and is_index(index)


@pytest.mark.parametrize(
    "index",
    [
        "base: ''",
        "base: s3://bucket/whl",
        "base: ../wheels",
        "base: mirror.example/whl",
        "base: 'http://'",
        "base: 'https://user:secret@'",
        "base: file://server/share",
        "base: /",
        "base: -h",
        "base: https://b\u00fccher.example/whl",
        "base: https://mirror.example/a b",
        "base: https://mirror.example/`id`",
        "base: https://mirror.example/whl?x=1",
        "base: https://mirror.example:999999/whl",
        "base: https://mirror.example, template: '{build}'",
        "base: https://mirror.example, template: '{base}/ {build}'",
    ],
)
def test_a_mirror_that_pip_and_uv_cannot_use_is_refused_with_its_line(overlay, index: str) -> None:  # type: ignore[no-untyped-def]
    for text, line in ((f"\nwheel_index: {{{index}}}\n", 2), (f"wheel_indexes:\n  - {{id: own, {index}}}\n", 2)):
        path = overlay(text)
        message = refused(path)
        assert message.startswith(f"{path}:{line}: wheel_index") and "no index that pip and uv can use" in message
        assert "secret" not in message


def test_later_overlays_win(tmp_path: Path) -> None:
    paths = []
    for number, base in enumerate(("https://one.example", "https://two.example")):
        path = tmp_path / f"{number}.yaml"
        path.write_text(f"wheel_index: {{base: '{base}'}}\n")
        paths.append(path)
    wheel_index = load_matrix(paths).tables.wheel_index
    assert wheel_index is not None and wheel_index.base == "https://two.example"


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("cuda_floors:\n  rows:\n    - {major: '14', driver: 700}\n", 3, "quotes"),
        ("cuda_floors:\n  - {major: '14'}\n", 2, "driver"),
        ("cuda_floors:\n  - {major: '14', driver: '700', colour: red}\n", 2, "colour"),
        ("cuda_floors:\n  - {major: '14', driver: '700'}\n  - {major: '14', driver: '701'}\n", 3, "second row"),
        ("nvidia_gpus:\n\n  - {pci: ffff, chip: GX999, name: Unheard}\n", 3, "GX999"),
        ("nvidia_gpus:\n  - {pci: '0xFFFF', chip: GB202, name: X}\n", 2, "hex"),
        ("amd_gpus:\n  - {pci: ffff, chip: X, gfx: gfx7777, name: X}\n", 2, "gfx7777"),
        (f"torch_builds:\n  - {BUILD}, archs: [sm_99]}}\n", 2, "sm_99"),
        (f"torch_builds:\n  - {BUILD.replace('12.8', '12.4')}}}\n", 2, "do not match"),
        ("nvidia_kernel_limits:\n  - {driver: '==1', kernel: newer, status: breaks}\n", 2, "specifier"),
        ("log_patterns:\n  - {id: x, vendor: any, pattern: '(', meaning: m, example: e}\n", 2, "pattern"),
        ("log_patterns:\n  - {id: x, vendor: any, pattern: abc, meaning: m, example: e}\n", 2, "example"),
        ("cuda_floors:\n  - {major: '14', driver: '700', checked: yesterday}\n", 2, "yesterday"),
        (
            "gfx_targets:\n  - {gfx: gfx1010, family: RDNA1, chips: X, kind: dgpu,"
            " override: {value: '10.3.0', safety: safe-class}}\n",
            2,
            "safe-class",
        ),
        ("gfx_targets:\n  - {gfx: gfx1010, family: RDNA1, chips: X, kind: dgpu, override: 10}\n", 2, "override"),
        (f"torch_builds:\n  - {BUILD.replace('build: cu128', 'build: cu 128')}}}\n", 2, "no command can name"),
        (f"torch_builds:\n  - {BUILD}, index: nowhere}}\n", 2, "nowhere"),
        (f"torch_builds:\n  - {BUILD}, extra: 'device-{{0}}'}}\n", 2, "{gfx}"),
        ("companions:\n  - {torch: '2.9.1', torchvision: '$(id)'}\n", 2, "$(id)"),
        ("package_folders:\n  - {package: triton, folders: [triton, '../..']}\n", 2, "'../..' is no name"),
        ("package_folders:\n  - {package: triton, folders: ['']}\n", 2, "'' is no name of a folder"),
    ],
)
def test_a_wrong_row_is_named_with_its_line(overlay, text: str, line: int, says: str) -> None:  # type: ignore[no-untyped-def]
    path = overlay(text)
    message = refused(path)
    assert message.startswith(f"{path}:{line}: "), message
    assert says in message


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"- a\n- b\n",
        b"just text",
        b"\x00\xff\xfe\x00",
        b"\xff\xfe",
        b"\x7fELF\x02\x01\x01" + bytes(100),
        b"torch_builds: 7\n",
        b"torch_builds: {source: x}\n",
        b"torch_builds: {rows: 7}\n",
        b"torch_builds: [7, null, []]\n",
        b"torch_bilds: []\n",
        b"cuda_floors: &a\n  - &b {major: '14', driver: '700'}\n  - *b\n",
        b"a: &a [x]\nb: &b [*a,*a]\nc: [*b,*b]\n",
        b"cuda_floors: !!python/object/apply:os.system ['true']\n",
        b"cuda_floors: !!set {a, b}\n",
        b"cuda_floors: [" + b"[" * 50_000,
        b"{" * 50_000,
        b"? " * 20_000,
        b"cuda_floors:\n\t- tab\n",
        b"cuda_floors: [{major: '14', driver: '700'}\n",
        b"wheel_index: {base: 7}\n",
        b"wheel_index: nothing\n",
        b"wheel_index: {base: 'https://x.example', template: '{base}/{nope}'}\n",
        b"wheel_index: {base: 'https://x.example', template: '{build.__class__}'}\n",
        b"version: 7\n",
        b"%YAML 9.9\n---\na: 1\n",
        b"---\na: 1\n---\nb: 2\n",
        b"2026-01-01: 7\n",
        b"[1, 2]: 7\n",
        b"{a: 1}: 7\n",
        b"cuda_floors: [{major: '14', driver: '700', 7: x}]\n",
        b"cuda_floors: [{[1]: x}]\n",
        b"torch_builds: [{version: 2026-01-01}]\n",
        b"cuda_floors: {rows: [{major: " + b"9" * 6000 + b", driver: 0x" + b"f" * 6000 + b"}]}\n",
        b"cuda_floors: [{major: '14', driver: '700', " + b"9" * 6000 + b": 1}]\n",
        b"cuda_floors: [{major: '14', driver: 1" + b":1" * 100_000 + b", colour: red}]\n",
        b"%TAG !a! x\n---\na: 1\n",
        b"x" * (9 << 20),
    ],
)
def test_no_file_gives_a_traceback(overlay, content: bytes) -> None:  # type: ignore[no-untyped-def]
    refused(overlay(content))


def test_what_cannot_be_read(tmp_path: Path) -> None:
    refused(tmp_path / "nothing.yaml")
    refused(tmp_path)
    refused(Path("/dev/zero"))
    with pytest.raises(MatrixError):
        load_matrix([Path("a\0b")])


def test_a_misspelt_table_gets_a_suggestion(overlay) -> None:  # type: ignore[no-untyped-def]
    assert "torch_builds" in refused(overlay("torch_build: []\n"))


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_bytes(content: bytes) -> None:
    import tempfile

    with tempfile.NamedTemporaryFile(suffix=".yaml") as file:
        file.write(content)
        file.flush()
        try:
            load_matrix([Path(file.name)])
        except MatrixError as error:
            assert "\n" not in str(error)


def test_the_whole_matrix_needs_sources(tmp_path: Path) -> None:
    path = tmp_path / "whole.yaml"
    row = "    - {major: '14', driver: '700'}\n"
    path.write_text(f"version: '2026.11'\ncuda_floors:\n  rows:\n{row}")
    with pytest.raises(MatrixError, match=r"whole\.yaml:4: cuda_floors, row 1 \(14\): has no source"):
        load_yaml(path)
    path.write_text(f"version: '2026.11'\ncuda_floors:\n  source: a\n  checked: '2026-11-21'\n  rows:\n{row}{row}")
    with pytest.raises(MatrixError, match=r"whole\.yaml:7: .*second row"):
        load_yaml(path)
    path.write_text("cuda_floors: []\n")
    with pytest.raises(MatrixError, match="version"):
        load_yaml(path)


_VARIABLE = "framework_variables: [{framework: jax, variables: [A], severity: note, meaning: a, pattern: "
_FLAGS = "framework_flags: [{framework: jax, variable: A, libraries: [b], severity: error, meaning: a, "


@pytest.mark.parametrize(
    ("row", "field"),
    [
        (f"{_VARIABLE} '('}}]", "pattern"),
        (f"{_VARIABLE} a, without: '['}}]", "without"),
        (f"{_VARIABLE} a, version: 2x}}]", "version"),
        (f"{_FLAGS} gone: '*'}}]", "gone"),
        (f"{_FLAGS} takes: {{a: '('}}}}]", "takes"),
        ("shared_files: [{id: a, packages: 'a(', slug: a, what: a}]", "packages"),
        ("library_roles: [{library: 'a(', role: half}]", "library"),
        (
            "frameworks: [{framework: a, title: A, packages: [a], gpu: usually, record: {file: a, cuda: '('}}]",
            "record",
        ),
        ("base_images: [{pattern: 'a(', example: a}]", "pattern"),
        ("removed_images: [{pattern: '[', example: a, instead: b}]", "pattern"),
        ("requirement_uses: [{package: torch, requires: a, breaks: gpu, spare: '('}]", "spare"),
    ],
)
def test_a_field_that_is_no_expression_or_specifier_is_named(overlay, row: str, field: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(MatrixError, match=rf": {field}: "):
        load_matrix([overlay(row + "\n")])


def test_the_name_of_an_image_is_no_expression(overlay) -> None:  # type: ignore[no-untyped-def]
    row = "framework_builds: [{framework: vllm, package: vllm, vendor: amd, image: 'example.org/c++(x:1'}]\n"
    assert "example.org/c++(x:1" in [one.image for one in load_matrix([overlay(row)]).tables.framework_builds]


def test_validating_files_of_both_kinds(overlay) -> None:  # type: ignore[no-untyped-def]
    added = validate_matrix([overlay("cuda_floors:\n  - {major: '14', driver: '700'}\n")])
    assert added.cuda_floors[-1].driver == "700"
    assert replace(added, cuda_floors=added.cuda_floors[:-1]) == own_tables()
    whole = overlay(
        "version: '2026.11'\ncuda_floors:\n  - {major: '14', driver: '700'}\n  - {major: '15', driver: '7'}\n"
    )
    with pytest.raises(MatrixError, match=r":3: .*no source.* \(and 3 more\)"):
        validate_matrix([whole])
