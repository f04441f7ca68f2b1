"""Texts as people paste them into bug reports, written anew with the values of real ones."""

from __future__ import annotations

COLLECT_ENV = """\
Collecting environment information...
PyTorch version: 2.5.1+cu124
Is debug build: False
CUDA used to build PyTorch: 12.4
ROCM used to build PyTorch: N/A

OS: Ubuntu 22.04.4 LTS (x86_64)
GCC version: (Ubuntu 11.4.0-1ubuntu1~22.04) 11.4.0
Libc version: glibc-2.35

Python version: 3.10.12 (main, Jul 29 2024, 16:56:48) [GCC 11.4.0] (64-bit runtime)
Python platform: Linux-6.5.0-1025-oracle-x86_64-with-glibc2.35
Is CUDA available: True
CUDA runtime version: Could not collect
CUDA_MODULE_LOADING set to: LAZY
GPU models and configuration:
GPU 0: NVIDIA A100-SXM4-80GB
GPU 1: NVIDIA A100-SXM4-80GB

Nvidia driver version: 550.90.07
cuDNN version: Could not collect
HIP runtime version: N/A

Versions of relevant libraries:
[pip3] numpy==1.26.4
[pip3] torch==2.5.1+cu124
[pip3] torchvision==0.20.1+cu124
[conda] Could not collect
"""
ROCM_ENV = """\
PyTorch version: 2.9.1+rocm6.4
CUDA used to build PyTorch: N/A
ROCM used to build PyTorch: 6.4.43484-123eb5128
OS: Fedora Linux 42 (Workstation Edition) (x86_64)
Python version: 3.13.7 (main, Aug 14 2025) [GCC 15.2.1] (64-bit runtime)
Is CUDA available: True
GPU models and configuration: AMD Radeon RX 7900 XTX (gfx1100)
HIP runtime version: 6.4.43484
"""
WARNING = """\
/home/alice/venv/lib/python3.12/site-packages/torch/cuda/__init__.py:235: UserWarning:
NVIDIA GeForce RTX 5090 with CUDA capability sm_120 is not compatible with the current PyTorch installation.
The current PyTorch install supports CUDA capabilities sm_50 sm_60 sm_70 sm_75 sm_80 sm_86 sm_90.
If you want to use the NVIDIA GeForce RTX 5090 GPU with PyTorch, please check the instructions at https://pytorch.org/get-started/locally/
RuntimeError: CUDA error: no kernel image is available for execution on the device
"""
SMI = """\
$ nvidia-smi
Thu Nov  6 10:12:44 2025
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 550.127.05             Driver Version: 550.127.05     CUDA Version: 12.4     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   0  NVIDIA GeForce RTX 4090        On  |   00000000:01:00.0 Off |                  Off |
| 30%   28C    P8             17W /  450W |       2MiB /  24564MiB |      0%      Default |
|                                         |                        |                  N/A |
+-----------------------------------------+------------------------+----------------------+
"""
ROCMINFO = """\
ROCk module is loaded
=====================
HSA System Attributes
=====================
==========
HSA Agents
==========
*******
Agent 1
*******
  Name:                    AMD Ryzen 7 5800X 8-Core Processor
  Device Type:             CPU
*******
Agent 2
*******
  Name:                    gfx1031
  Uuid:                    GPU-XX
  Marketing Name:          AMD Radeon RX 6700 XT
  Device Type:             GPU
  Chip ID:                 29663(0x73df)
  BDFID:                   2816
  ISA Info:
    ISA 1
      Name:                    amdgcn-amd-amdhsa--gfx1031
*** Done ***
"""
DMESG = """\
[  903.609564] NVRM: RmInitAdapter: Cannot initialize GSP firmware RM
[  903.610907] NVRM: GPU 0000:98:00.0: RmInitAdapter failed! (0x62:0x65:1792)
[ 2052.745833] NVRM: gpuWaitForGfwBootComplete_TU102: failed to wait for GFW_BOOT: (progress 0x3)
"""
COMFYUI = """\
2025-10-24T13:03:07.297713 - ** Platform:2025-10-24T13:03:07.297741 -  2025-10-24T13:03:07.297767 - Linux
2025-10-24T13:03:07.297857 - ** Python version:2025-10-24T13:03:07.297883 -  3.13.7 (main, Aug 15 2025, 12:34:02)
2025-10-24T13:03:09.297857 - pytorch version: 2.9.0+cu128
2025-10-24T13:03:09.297858 - Device: cuda:0 NVIDIA GeForce GTX 1080 Ti : cudaMallocAsync
CUDA error: no kernel image is available for execution on the device
"""
OLLAMA = (
    '2025/01/31 20:10:11 routes.go:1187: INFO server config env="map[CUDA_VISIBLE_DEVICES: GPU_DEVICE_ORDINAL: '
    'HIP_VISIBLE_DEVICES: HSA_OVERRIDE_GFX_VERSION: OLLAMA_DEBUG:true ROCR_VISIBLE_DEVICES: http_proxy:]"\n'
    'time=2025-01-31T20:10:12.100Z level=INFO source=types.go:131 msg="inference compute" id=GPU-1 library=cuda '
    'variant=v12 compute=8.6 driver=12.4 name="NVIDIA GeForce RTX 3060" total="11.8 GiB" available="11.5 GiB"\n'
)
SHELL = """\
$ docker run -it --rm pytorch/pytorch:2.5.1-cuda12.4-cudnn9-runtime python
>>> import torch
>>> torch.__version__
'2.5.1+cu124'
>>> torch.cuda.is_available()
False
RuntimeError: No CUDA GPUs are available
$ echo $CUDA_VISIBLE_DEVICES
7
"""
ISSUE = f"""\
### Describe the bug

<!-- Please describe what happens. Include RTX 3090 or whatever GPU you have. -->
It does not work since the update, @maintainers please help.

### GPU

GeForce RTX 4090

### Logs
<details>
<summary>nvidia-smi</summary>

```
{SMI}```
</details>

```console
(venv) alice@workstation:~$ pip list
Package                  Version
------------------------ -----------
numpy                    2.1.0
torch                    2.2.0+cu121
torchvision              0.17.0+cu121
```

RuntimeError: Numpy is not available
"""
WINDOWS = """\
Traceback (most recent call last):
  File "C:\\Users\\bob\\ComfyUI\\main.py", line 3, in <module>
RuntimeError: The NVIDIA driver on your system is too old (found version 11040).
| NVIDIA-SMI 472.12       Driver Version: 472.12       CUDA Version: 11.4     |
pytorch version: 2.5.1+cu124
GPU: NVIDIA GeForce RTX 3060
"""
TWO_MACHINES = f"""\
My workstation:
{COLLECT_ENV}
And the new box, where it fails:
Collecting environment information...
PyTorch version: 2.5.1+cu124
CUDA used to build PyTorch: 12.4
Is CUDA available: True
GPU models and configuration: GPU 0: NVIDIA GeForce RTX 5090
Nvidia driver version: 570.133.07
RuntimeError: CUDA error: no kernel image is available for execution on the device
"""
PASTED = (
    COLLECT_ENV, ROCM_ENV, WARNING, SMI, ROCMINFO, DMESG, COMFYUI, OLLAMA, SHELL, ISSUE, WINDOWS, TWO_MACHINES,
)  # fmt: skip
