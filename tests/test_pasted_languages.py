"""What people tell in other languages than English: the glossary of the matrix gives the words of the patterns."""

from __future__ import annotations

import pytest

from gpudoctor.intake.text.languages import in_english
from gpudoctor.intake.text.lines import plain_lines
from tests.support.check_cases import matrix
from tests.support.judged_texts import judgement, problems

ROWS = matrix().tables.foreign_words


def first(text: str) -> str:
    return next(iter(problems(text)), "")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.english)
def test_each_word_is_read_in_english(row) -> None:
    read = in_english(plain_lines(f"- {row.example} -".encode()), matrix())[0].text
    assert row.english.replace("\\1", "").strip() in read
    assert row.example not in read


@pytest.mark.parametrize(
    "text",
    [
        "The pilot of the icon comes with a placard; see github.com/a/b and nur.example.org.",
        "pip install --force-reinstall torch; then reinstall the node.",
        "Standard headers, trace logs and a standalone run are no words of a fault.",
    ],
)
def test_english_stays_as_it_is(text: str) -> None:
    assert in_english(plain_lines(text.encode()), matrix())[0].text == text


@pytest.mark.parametrize(
    ("text", "slug"),
    [
        ("休眠唤醒之后cuda用不了了, ubuntu 22.04, rtx 3070", "nvidia-uvm-after-suspend"),
        ("环境里同时安装了 onnxruntime 和 onnxruntime-gpu, CUDA 用不了", "ort-cpu-and-gpu-both"),
        ("На RTX 5070 не запускается, нужен torch cu128", "torch-no-arch-for-gpu"),
        ("После сна CUDA перестаёт работать, RTX 3060, Ubuntu", "nvidia-uvm-after-suspend"),
        ("Nach dem Standby geht CUDA nicht mehr, RTX 2060, Ubuntu 22.04", "nvidia-uvm-after-suspend"),
        ("Después de suspender el portátil CUDA ya no funciona, RTX 3050", "nvidia-uvm-after-suspend"),
        ("Depois de suspender, o CUDA para de funcionar. RTX 3050", "nvidia-uvm-after-suspend"),
        ("スリープから復帰するとCUDAが使えなくなります。RTX 3070", "nvidia-uvm-after-suspend"),
        ("更新内核之后nvidia-smi用不了了", "nvidia-dkms-kernel-mismatch"),
        ("После обновления ядра nvidia-smi не работает", "nvidia-dkms-kernel-mismatch"),
        ("Nach einem Kernel-Update funktioniert nvidia-smi nicht mehr", "nvidia-dkms-kernel-mismatch"),
        ("Después de actualizar el kernel nvidia-smi no funciona", "nvidia-dkms-kernel-mismatch"),
        ("カーネル更新後にnvidia-smiが動かなくなりました", "nvidia-dkms-kernel-mismatch"),
        ("开启了安全启动, nvidia-smi 用不了", "secure-boot-module-rejected"),
        ("Mit aktiviertem Secure Boot läuft nvidia-smi nicht", "secure-boot-module-rejected"),
        ("只有 sudo 才能用 rocm, 普通用户看不到 GPU, RX 6700 XT", "amd-device-permission"),
        ("rocminfo funktioniert nur mit sudo, RX 7800 XT", "amd-device-permission"),
        ("docker 容器里检测不到显卡, 宿主机 nvidia-smi 正常", "container-no-gpu"),
        ("Im Docker-Container wird die GPU nicht gefunden, auf dem Host geht nvidia-smi", "container-no-gpu"),
        ("En el contenedor docker no detecta la GPU, en el host nvidia-smi funciona", "container-no-gpu"),
        ("显卡驱动太旧了, torch 报错", "driver-too-old"),
        ("Der Treiber ist zu alt für CUDA 12, RTX 2070", "driver-too-old"),
        ("O driver da NVIDIA é muito antigo para o CUDA 12", "driver-too-old"),
        ("ドライバが古いのでCUDA 12が動きません。RTX 3060", "driver-too-old"),
        ("更新之后torch变成了cpu版本, 显卡是3060, 怎么办?", "torch-cpu-only"),
        ("Установился torch без CUDA, видеокарта не используется. RTX 3070", "torch-cpu-only"),
        ("Depois da atualização o torch foi instalado na versão CPU, minha RTX 3060 não é usada", "torch-cpu-only"),
        ("rocm 7.0 下报错段错误, 换回 rocm 6.3 正常, 6900XT", "rocm-runtime-bug"),
        ("启动时提示找不到 libcudnn.so.8, cuda 12.1", "framework-cuda-libs-missing"),
        ("RuntimeError: Found no NVIDIA driver on your system.\n我的是AMD显卡", "cuda-torch-on-amd"),
        ("RuntimeError: Found no NVIDIA driver on your system.\nвидеокарта: AMD", "cuda-torch-on-amd"),
    ],
)
def test_a_fault_told_in_another_language_has_its_cause(text: str, slug: str) -> None:
    assert first(text) == slug


@pytest.mark.parametrize(
    "text",
    [
        "更新内核之后一切正常, nvidia-smi 也正常",
        "希望增加对 AMD 显卡的支持",
        "CPU版torchのインストール方法を教えてください",
        "Nach dem Standby läuft CUDA wie vorher.",
        "Как установить cpu версию torch?",
    ],
)
def test_what_is_no_complaint_in_another_language_names_no_cause(text: str) -> None:
    assert problems(text) == []


def test_a_sentence_is_quoted_as_it_was_written() -> None:
    finding = next(iter(judgement("После обновления ядра nvidia-smi не работает").findings))
    assert "После обновления ядра" in finding.message
