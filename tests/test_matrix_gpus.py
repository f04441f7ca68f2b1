"""Which GPU is meant: PCI ids, device trees, and the many ways of writing a name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudoctor.matrix.load import load_matrix
from gpudoctor.matrix.questions import Matrix


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load_matrix()


@pytest.mark.parametrize(
    ("name", "arch"),
    [
        # as people write them
        ("rx 6700xt", "gfx1031"),
        ("RX 6700 XT", "gfx1031"),
        ("6700 xt", "gfx1031"),
        ("RX 6800", "gfx1030"),
        ("rx6600", "gfx1032"),
        ("4090", "sm_89"),
        ("4060ti", "sm_89"),
        ("1080 Ti", "sm_61"),
        ("H100", "sm_90"),
        ("MI300X", "gfx942"),
        ("Vega 64", "gfx900"),
        ("strix halo", "gfx1151"),
        ("780m", "gfx1103"),
        ("K80", "sm_37"),
        ("T4", "sm_75"),
        ("RTX PRO 6000", "sm_120"),
        ("NVIDIA GH200 Grace Hopper Superchip", "sm_90"),
        ("RTX 3090 Ampere", "sm_86"),
        ("TITAN X Pascal", "sm_61"),
        ("RTX 6000 Ada", "sm_89"),
        ("GTX TITAN X", "sm_52"),
        ("BC-250", "gfx1013"),
        ("GeForceGTX1080Ti", "sm_61"),
        ("GeForce-940A", "sm_50"),  # no type of a vGPU, as A16-4A is
        ("R9 380X", "gfx802"),
        # as drivers print them
        ("NVIDIA H100 80GB HBM3", "sm_90"),
        ("NVIDIA H100 PCIe", "sm_90"),
        ("NVIDIA H200", "sm_90"),
        ("NVIDIA GH200 480GB", "sm_90"),
        ("NVIDIA A100-SXM4-80GB", "sm_80"),
        ("NVIDIA A100 80GB PCIe", "sm_80"),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "sm_80"),
        ("Tesla V100-SXM2-16GB", "sm_70"),
        ("Tesla P100-PCIE-16GB", "sm_60"),
        ("NVIDIA GeForce RTX 5090 Laptop GPU", "sm_120"),
        ("NVIDIA GeForce RTX 3080 Ti Laptop GPU", "sm_86"),
        ("NVIDIA GeForce GTX 1660 SUPER", "sm_75"),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "sm_120"),
        ("NVIDIA RTX 6000 Ada Generation", "sm_89"),
        ("Quadro RTX 6000", "sm_75"),
        ("NVIDIA TITAN X (Pascal)", "sm_61"),
        ("NVIDIA B200", "sm_100"),
        ("NVIDIA GB10", "sm_121"),
        ("Orin (nvgpu)", "sm_87"),
        ("NVIDIA Thor", "sm_110"),
        ("GRID A100-10C", "sm_80"),
        ("NVIDIA A40-48Q", "sm_86"),
        ("AMD Radeon RX 7900 XTX", "gfx1100"),
        ("AMD Radeon PRO W7900", "gfx1100"),
        ("AMD Instinct MI250X / MI250", "gfx90a"),
        ("Radeon RX 9070 XT", "gfx1201"),
        ("AMD Radeon AI PRO R9700S", "gfx1201"),
        ("Ryzen AI Max+ PRO 495", "gfx1151"),
        # chips, ids, architectures
        ("GB202", "sm_120"),
        ("navi 22", "gfx1031"),
        ("10de:2b85", "sm_120"),
        ("1002:73DF", "gfx1031"),
        ("0x10de:0x2330", "sm_90"),
        ("sm_90", "sm_90"),
        ("sm90a", "sm_90"),
        ("gfx1031", "gfx1031"),
        ("gfx90a:sramecc+:xnack-", "gfx90a"),
    ],
)
def test_a_name_stands_for_one_architecture(matrix: Matrix, name: str, arch: str) -> None:
    assert [gpu.arch for gpu in matrix.gpus.gpus_by_name(name)] == [arch]


@pytest.mark.parametrize(
    ("name", "arch"),
    [("TITAN X (Maxwell)", "sm_52"), ("TITAN X (Pascal)", "sm_61"), ("RTX 6000 Blackwell", "sm_120")],
)
def test_a_generation_tells_which_gpu_of_a_name_is_meant(matrix: Matrix, name: str, arch: str) -> None:
    assert [gpu.arch for gpu in matrix.gpus.gpus_by_name(name)] == [arch]


@pytest.mark.parametrize("name", ["RTX A4000 Ada", "RTX 4090 Ampere", "V100 Turing"])
def test_a_name_with_another_generation_than_its_gpu_has_is_none(matrix: Matrix, name: str) -> None:
    """Whoever says RTX A4000 Ada may mean either: the Ampere RTX A4000 was taken."""
    assert matrix.gpus.gpus_by_name(name) == ()
    assert matrix.gpus.names_near("") == ()


@pytest.mark.parametrize(
    ("name", "arch"),
    [
        ("5700G", "gfx90c"),
        ("AMD Ryzen 7 5700G with Radeon Graphics", "gfx90c"),
        ("Ryzen 5 2400G", "gfx902"),
        ("Ryzen 9 6900HX", "gfx1035"),
        ("Ryzen 9 7945HX", "gfx1036"),
        ("8700G", "gfx1103"),
        ("Z1 Extreme", "gfx1103"),
        ("AMD Ryzen Z2 Extreme", "gfx1150"),
        ("AMD Ryzen Z2", "gfx1103"),
        ("AMD Ryzen Z2 Go", "gfx1035"),
        ("AMD Ryzen AI 9 HX 370", "gfx1150"),
        ("AMD Ryzen AI 9 HX PRO 470", "gfx1150"),
        ("AMD Ryzen AI 7 450", "gfx1152"),
        ("AMD Ryzen AI 5 340", "gfx1152"),  # a Radeon 840M, as that of the next
        ("AMD Ryzen AI 5 435", "gfx1153"),
        ("AMD Ryzen 7 250", "gfx1103"),
        ("Ryzen 5 5600X", None),  # has no GPU
        ("Ryzen 7 9800X3D", None),
    ],
)
def test_a_processor_names_its_integrated_gpu(matrix: Matrix, name: str, arch: str | None) -> None:
    found = matrix.gpus.gpu_of_processor(name)
    assert (found.arch if found else None) == arch
    assert not matrix.gpus.gpus_by_name(name)  # in a text it is the processor


@pytest.mark.parametrize(
    ("name", "archs"),
    [
        ("GT 730", {"sm_21", "sm_30", "sm_35"}),
        ("GeForce GTX 860M", {"sm_30", "sm_50"}),
        ("RTX 6000", {"sm_75", "sm_89", "sm_120"}),
        ("RTX 5000", {"sm_75", "sm_89", "sm_120"}),
        ("Titan X", {"sm_52", "sm_61"}),
        ("580", {"sm_20", "gfx803"}),
        ("840M", {"sm_50", "gfx1152", "gfx1153"}),
        ("Radeon 840M", {"gfx1152", "gfx1153"}),
    ],
)
def test_ambiguous_names_give_every_architecture(matrix: Matrix, name: str, archs: set[str]) -> None:
    assert {gpu.arch for gpu in matrix.gpus.gpus_by_name(name)} == archs


@pytest.mark.parametrize(
    ("name", "pci"),
    [
        # as the driver prints them, and the id that it prints them for
        ("NVIDIA A100 80GB PCIe", "10de:20b5"),
        ("NVIDIA A100-SXM4-40GB", "10de:20b0"),
        ("NVIDIA A100-SXM4-80GB", "10de:20b2"),
        ("NVIDIA A800 80GB PCIe LC", "10de:20f5"),
        ("NVIDIA H100 80GB HBM3", "10de:2330"),
        ("NVIDIA H100 PCIe", "10de:2331"),
        ("NVIDIA H100 NVL", "10de:2321"),
        ("NVIDIA H20-3e", "10de:232c"),
        ("NVIDIA H200", "10de:2335"),
        ("NVIDIA H200 NVL", "10de:233b"),
        ("NVIDIA GH200 480GB", "10de:2342"),
        ("NVIDIA GH200 144G HBM3e", "10de:2348"),
        ("Tesla V100-SXM2-32GB-LS", "10de:1db5"),
        ("Tesla V100-SXM2-16GB", "10de:1db1"),
        ("Tesla P100-SXM2-16GB", "10de:15f9"),
        ("NVIDIA T1000 8GB", "10de:1ff0"),
        ("NVIDIA RTX 6000 Ada Generation", "10de:26b1"),
        ("NVIDIA GeForce RTX 4090", "10de:2684"),
        ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "10de:2bb4"),
        ("Quadro RTX 3000", "10de:1f36"),
        # as lspci, amd-smi and rocminfo print them
        ("NVIDIA Corporation GA102 [GeForce RTX 3090] (rev a1)", "10de:2204"),
        ("Navi 31 [Radeon RX 7900 XT/7900 XTX/7900 GRE/7900M]", "1002:744c"),
        ("AMD Instinct MI300X OAM", "1002:74a1"),
        ("AMD Instinct MI355 OAM", "1002:75a3"),
        ("AMD Radeon RX 580 Series", "1002:67df"),
        ("AMD RYZEN AI MAX+ 395 w/ Radeon 8060S", "1002:1586"),
        # as shops call boards
        ("MSI GeForce RTX 3090 Gaming", "10de:2204"),
        ("3090 FE", "10de:2204"),
        ("Sapphire Nitro+ RX 7900 XTX", "1002:744c"),
    ],
)
def test_a_name_means_exactly_that_product(matrix: Matrix, name: str, pci: str) -> None:
    assert [gpu.pci_id for gpu in matrix.gpus.gpus_by_name(name)] == [pci]


@pytest.mark.parametrize("name", ["RTX 5080 Super", "RTX 4090 Ti", "AMD Radeon Graphics", "Radeon Pro", "Arc A770"])
def test_no_word_that_tells_a_product_is_left_out(matrix: Matrix, name: str) -> None:
    assert matrix.gpus.gpus_by_name(name) == ()


def test_a_neighbour_has_nearly_the_same_number_and_line(matrix: Matrix) -> None:
    for far_fetched in ("Arc A770", "B580", "M2"):
        assert matrix.gpus.names_near(far_fetched) == (), far_fetched


def test_unknown_names_are_unknown_and_get_neighbours(matrix: Matrix) -> None:
    assert matrix.gpus.gpus_by_name("RTX 5909") == ()
    assert any("5090" in name for name in matrix.gpus.names_near("RTX 5909"))
    assert any("6700 XT" in name for name in matrix.gpus.names_near("RX 6770 XT"))
    assert len(matrix.gpus.names_near("RTX 50")) <= 5


@pytest.mark.parametrize(
    ("asked", "near"),
    [
        ("sm_130", ("sm_121", "sm_120", "sm_110")),
        ("sm_12", ("sm_120", "sm_121", "sm_20")),
        ("gfx1104", ("gfx1103", "gfx1102", "gfx1101")),
        ("gfx12", ("gfx1200", "gfx1201", "gfx1250")),
        ("Rubin", ("sm_107",)),
        ("RDNA 4", ("gfx1200", "gfx1201")),
    ],
)
def test_an_architecture_leads_to_architectures(matrix: Matrix, asked: str, near: tuple[str, ...]) -> None:
    assert matrix.gpus.names_near(asked) == near


def test_products_without_a_pci_id_are_known_by_their_target(matrix: Matrix) -> None:
    assert [gpu.arch for gpu in matrix.gpus.gpus_by_name("AMD Instinct MI455X")] == ["gfx1250"]
    assert matrix.gpus.gpus_by_name("MI465X") == ()
    for nothing in ("", "   ", "NVIDIA", "Radeon", "GeForce RTX", "10de:ffff", "gfx9999", "sm_1", "/", "()"):
        assert matrix.gpus.gpus_by_name(nothing) == (), nothing


def test_the_revision_names_the_product(matrix: Matrix) -> None:
    gpu = matrix.gpus.gpu_by_pci("1002:73DF", "0xC1")
    assert gpu is not None
    assert (gpu.name, gpu.arch, gpu.family) == ("AMD Radeon RX 6700 XT", "gfx1031", "RDNA2")
    other = matrix.gpus.gpu_by_pci("1002:73df", "zz")
    assert other is not None and other.arch == "gfx1031"


def test_what_a_pci_id_says(matrix: Matrix) -> None:
    gpu = matrix.gpus.gpu_by_pci("10DE:2B85")
    assert gpu is not None
    assert (gpu.name, gpu.chip, gpu.family) == ("NVIDIA GeForce RTX 5090", "GB202", "Blackwell")
    assert not (gpu.datacenter or gpu.integrated or gpu.jetson)
    assert matrix.gpus.gpu_by_pci("8086:4680") is None
    assert matrix.gpus.gpu_by_pci("nonsense") is None


@pytest.mark.parametrize(
    ("name", "datacenter"),
    [
        ("Tesla T4", True),
        ("A100 PCIe 80GB", True),
        ("H100 SXM5 80GB", True),
        ("L40S", True),
        ("A10G", True),
        ("B200", True),
        ("GH200", True),
        ("RTX PRO 6000 Blackwell Server Edition", True),
        ("GeForce RTX 4090", False),
        ("Quadro RTX 6000", False),
        ("RTX 6000 Ada Generation", False),
        ("RTX A6000", False),
        ("RTX PRO 6000 Blackwell Workstation Edition", False),
        ("TITAN RTX", False),
        ("A2 / A16", True),
        ("T400 4GB / T400E", False),
    ],
)
def test_forward_compatibility_is_for_data_centre_products(matrix: Matrix, name: str, datacenter: bool) -> None:
    assert [gpu.datacenter for gpu in matrix.gpus.gpus_by_name(name)] == [datacenter]


@pytest.mark.parametrize(
    ("compatible", "arch", "jetson"),
    [
        ("nvidia,p3737-0000+p3701-0005\0nvidia,tegra234", "sm_87", True),
        ("nvidia,p3450-0000\0nvidia,tegra210\0", "sm_53", True),
        ("nvidia,p2972-0000 nvidia,tegra194", "sm_72", True),
        ("nvidia,tegra264", "sm_110", True),
    ],
)
def test_jetsons_by_their_device_tree(matrix: Matrix, compatible: str, arch: str, jetson: bool) -> None:
    gpu = matrix.gpus.gpu_by_device_tree(compatible)
    assert gpu is not None
    assert (gpu.arch, gpu.jetson, gpu.integrated) == (arch, jetson, True)
    assert matrix.gpus.gpu_by_device_tree("raspberrypi,5-model-b\0brcm,bcm2712") is None
    assert matrix.gpus.gpu_by_device_tree("nvidia,tegra2345") is None


def test_the_systems_on_chip_that_are_pci_devices(matrix: Matrix) -> None:
    spark, thor = matrix.gpus.gpu_by_pci("10de:2e12"), matrix.gpus.gpu_by_pci("10de:2b00")
    assert spark is not None and thor is not None
    assert (spark.arch, spark.integrated, spark.jetson) == ("sm_121", True, False)
    assert (thor.arch, thor.integrated, thor.jetson) == ("sm_110", True, True)


def test_every_gpu_is_found_by_its_own_name(matrix: Matrix) -> None:
    for row in matrix.tables.nvidia_gpus:
        gpu = matrix.gpus.gpu_by_pci(f"10de:{row.pci}")
        assert gpu is not None
        assert gpu.arch in {found.arch for found in matrix.gpus.gpus_by_name(gpu.name)}, gpu.name
    for amd in matrix.tables.amd_gpus:
        for name in (*amd.revisions.values(), *amd.aliases):
            assert amd.gfx in {found.arch for found in matrix.gpus.gpus_by_name(name)}, name


@given(st.text(max_size=40))
def test_any_text_gets_an_answer(name: str) -> None:
    matrix = load_matrix_once()
    gpus = matrix.gpus.gpus_by_name(name)
    assert len({gpu.arch for gpu in gpus}) == len(gpus)
    assert matrix.gpus.gpu_by_pci(name) is None or ":" in name


_LOADED: list[Matrix] = []


def load_matrix_once() -> Matrix:
    if not _LOADED:
        _LOADED.append(load_matrix())
    return _LOADED[0]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("A100", "NVIDIA A100"),
        ("p100", "NVIDIA Tesla P100"),
        ("GTX 1060", "NVIDIA GeForce GTX 1060"),
        ("A100 80GB", "NVIDIA A100 SXM4 80GB"),
        ("Tesla V100-SXM2-16GB", "NVIDIA Tesla V100 SXM2 16GB"),
        ("RTX 3080", "NVIDIA GeForce RTX 3080"),
        ("RX 7900 XTX", "AMD Radeon RX 7900 XTX"),
    ],
)
def test_a_gpu_is_called_no_more_exactly_than_it_was_named(text: str, name: str, matrix: Matrix) -> None:
    (gpu,) = matrix.gpus.gpus_by_name(text)
    assert gpu.name == name
    (again,) = matrix.gpus.gpus_by_name(name)
    assert (again.name, again.arch) == (name, gpu.arch)
