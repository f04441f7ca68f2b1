"""Whole recorded machines, written into a folder that `--root` reads: files, nodes, variables.

    host = Host(tmp_path).ubuntu()
    host.nvidia_gpu("2b85").nvidia_driver("570.133.07")
    host.torch("2.6.0+cu124")
    report = host.check()            # the JSON report, through the command line

Values are those that real machines show; nothing here is produced by gpudoctor's own code.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from gpudoctor.cli import gpudoctor
from tests.support.environments import shared_library, write_distribution, write_torch, write_venv

LIB = "/usr/lib/x86_64-linux-gnu"
VENV = "/opt/venv"

_CPU = "\n".join(
    f"processor\t: {n}\nvendor_id\t: AuthenticAMD\nmodel name\t: AMD Ryzen 9 7950X\n"
    "flags\t\t: fpu sse sse2 ssse3 sse4_1 sse4_2 avx f16c avx2 fma\n"
    for n in range(2)
)


class Host:
    """A machine below a folder; every method adds what the machine would show and returns the host."""

    def __init__(self, root: Path, *, arch: str = "x86_64") -> None:
        self.root = root
        self.arch = arch
        self.json: dict[str, Any] = {
            "uname": {"release": "6.8.0-60-generic", "machine": arch},
            "environ": {},
            "user": {"uid": 1000, "gids": [44, 992, 1000]},
            "nodes": {},
            "commands": {},
        }
        self._modules: list[str] = []
        self.site: Path | None = None

    # --- files ------------------------------------------------------------------------------------

    def path(self, path: str) -> Path:
        """Where it lies below the folder."""
        place = self.root / path.lstrip("/")
        self._refuse_outside(place.parent)
        return place

    def _refuse_outside(self, place: Path) -> None:
        """An absolute link, such as that of a masked unit to /dev/null, leads to a file of the real machine."""
        assert place.resolve().is_relative_to(self.root.resolve()), f"{place} leads out of {self.root}"

    def file(self, path: str, content: str | bytes = "") -> Host:
        place = self.path(path)
        self._refuse_outside(place)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content.encode() if isinstance(content, str) else content)
        return self

    def link(self, path: str, target: str) -> Host:
        place = self.path(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)
        place.symlink_to(target)
        return self

    def remove(self, path: str) -> Host:
        self.path(path).unlink()
        return self

    def node(self, path: str, opened: str = "ok", *, mode: str = "0666", gid: int = 0) -> Host:
        self.json["nodes"][path] = {"mode": mode, "uid": 0, "gid": gid, "open": opened}
        return self if opened == "ENOENT" else self.file(path)

    def environ(self, **variables: str) -> Host:
        self.json["environ"].update(variables)
        return self

    def command(self, name: str, stdout: str = "", stderr: str = "", rc: int = 0) -> Host:
        self.json["commands"][name] = {"stdout": stdout, "stderr": stderr, "rc": rc}
        return self

    # --- the system ---------------------------------------------------------------------------------

    def ubuntu(self, version: str = "24.04", kernel: str = "6.8.0-60-generic") -> Host:
        """A bare-metal Ubuntu, without any GPU."""
        self.json["uname"]["release"] = kernel
        self.file(
            "/etc/os-release", f'ID=ubuntu\nID_LIKE=debian\nVERSION_ID="{version}"\nPRETTY_NAME="Ubuntu {version}"\n'
        )
        self.file("/etc/group", "root:x:0:\nvideo:x:44:someone\nrender:x:992:someone\nsomeone:x:1000:\n")
        self.file("/etc/ld.so.conf", "include /etc/ld.so.conf.d/*.conf\n")
        self.file("/etc/ld.so.conf.d/x86_64-linux-gnu.conf", f"/lib/{self.arch}-linux-gnu\n{self.lib}\n")
        self.file("/proc/version", f"Linux version {kernel} (buildd@host) #63-Ubuntu SMP PREEMPT_DYNAMIC\n")
        self.file("/proc/sys/kernel/osrelease", kernel + "\n")
        self.file("/proc/cmdline", f"BOOT_IMAGE=/boot/vmlinuz-{kernel} root=UUID=1 ro quiet splash\n")
        self.file("/proc/cpuinfo", _CPU)
        self.file("/proc/meminfo", "MemTotal:       65536000 kB\nMemAvailable:   60000000 kB\n")
        self.file("/proc/mounts", "tmpfs /dev/shm tmpfs rw,nosuid,nodev,size=32768000k 0 0\n")
        self.file("/proc/1/cgroup", "0::/init.scope\n")
        self.file("/proc/self/cgroup", "0::/user.slice/user-1000.slice/session-2.scope\n")
        self.file("/proc/self/mountinfo", "22 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw\n")
        self.file("/proc/modules", "")
        self.file("/sys/class/dmi/id/sys_vendor", "ASUSTeK COMPUTER INC.\n")
        self.file("/sys/class/dmi/id/product_name", "System Product Name\n")
        self.file("/sys/module/snd/refcnt", "1\n")
        self.file("/dev/null")
        self.path(self.lib).mkdir(parents=True, exist_ok=True)
        self.file(f"{self.lib}/libc.so.6", shared_library(soname="libc.so.6", arch=self.arch))
        self.path("/sys/bus/pci/devices").mkdir(parents=True, exist_ok=True)
        self._bridge()
        return self

    @property
    def lib(self) -> str:
        return f"/usr/lib/{self.arch}-linux-gnu"

    def _bridge(self) -> None:
        self.file("/sys/bus/pci/devices/0000:00:00.0/vendor", "0x1022\n")
        self.file("/sys/bus/pci/devices/0000:00:00.0/device", "0x14d8\n")
        self.file("/sys/bus/pci/devices/0000:00:00.0/class", "0x060000\n")

    def docker(self) -> Host:
        """The same machine seen from inside a Docker container."""
        self.file("/.dockerenv")
        self.file("/proc/1/cgroup", "0::/\n")
        self.file("/proc/self/cgroup", "0::/\n")
        self.file(
            "/proc/self/mountinfo",
            "500 400 0:60 / / rw,relatime - overlay overlay rw,lowerdir=/var/lib/docker/overlay2/l/A,upperdir=/u\n"
            "501 500 0:61 / /proc rw - proc proc rw\n",
        )
        self.file(
            "/proc/mounts", "overlay / overlay rw 0 0\nshm /dev/shm tmpfs rw,nosuid,nodev,noexec,size=8388608k 0 0\n"
        )
        return self

    def module(self, *names: str) -> Host:
        """Loaded kernel modules."""
        self._modules.extend(names)
        self.file("/proc/modules", "".join(f"{name} 1000 0 - Live 0x0000000000000000\n" for name in self._modules))
        for name in names:
            self.file(f"/sys/module/{name}/refcnt", "1\n")
        return self

    def pci(
        self,
        bdf: str,
        vendor: str,
        device: str,
        *,
        pci_class: str = "0x030000",
        driver: str | None = None,
        revision: str = "0xa1",
        boot_vga: bool | None = None,
    ) -> Host:
        base = f"/sys/bus/pci/devices/{bdf}"
        self.file(f"{base}/vendor", f"0x{vendor}\n").file(f"{base}/device", f"0x{device}\n")
        self.file(f"{base}/class", f"{pci_class}\n").file(f"{base}/revision", f"{revision}\n")
        bound = f"DRIVER={driver}\n" if driver else ""
        number = f"PCI_CLASS={int(pci_class, 16):X}\nPCI_ID={vendor.upper()}:{device.upper()}\nPCI_SLOT_NAME={bdf}\n"
        self.file(f"{base}/uevent", bound + number)
        if driver:
            self.file(f"/sys/bus/pci/drivers/{driver}/bind")
            self.link(f"{base}/driver", f"../../drivers/{driver}")
        if boot_vga is not None:
            self.file(f"{base}/boot_vga", f"{int(boot_vga)}\n")
        return self

    # --- NVIDIA --------------------------------------------------------------------------------------

    def nvidia_gpu(
        self,
        device: str,
        bdf: str = "0000:01:00.0",
        *,
        driver: str | None = "nvidia",
        pci_class: str = "0x030000",
        minor: int | None = 0,
    ) -> Host:
        """A GPU on the bus, by the device part of its PCI id; its node exists unless `minor` is None."""
        self.pci(bdf, "10de", device, driver=driver, pci_class=pci_class)
        if driver == "nvidia" and minor is not None:
            self.file(
                f"/proc/driver/nvidia/gpus/{bdf}/information", f"Bus Location:\t {bdf}\nDevice Minor: \t {minor}\n"
            )
            self.node(f"/dev/nvidia{minor}")
        return self

    def nvidia_driver(
        self,
        version: str,
        *,
        flavour: str = "open",
        libraries: str | None = "same",
        uvm: bool = True,
        control: bool = True,
    ) -> Host:
        """The loaded kernel module, its control nodes, and the user-space libraries of `libraries` version."""
        kind = "UNIX Open Kernel Module for x86_64" if flavour == "open" else "UNIX x86_64 Kernel Module"
        self.file(
            "/proc/driver/nvidia/version",
            f"NVRM version: NVIDIA {kind}  {version}  Release Build  (dvs-builder@U22)\nGCC version:  gcc 13.3.0\n",
        )
        self.module("nvidia", "nvidia_modeset", "nvidia_drm", *(("nvidia_uvm",) if uvm else ()))
        self.file("/sys/module/nvidia/version", version + "\n")
        if control:
            self.node("/dev/nvidiactl")
        if uvm:
            self.node("/dev/nvidia-uvm")
        if libraries is not None:
            self.nvidia_libraries(version if libraries == "same" else libraries)
        return self

    def nvidia_libraries(self, version: str, folder: str | None = None) -> Host:
        place = folder or self.lib
        for stem in ("libcuda", "libnvidia-ml", "libnvidia-ptxjitcompiler"):
            self.file(f"{place}/{stem}.so.{version}", shared_library(soname=f"{stem}.so.1", arch=self.arch))
            self.link(f"{place}/{stem}.so.1", f"{stem}.so.{version}")
        return self

    # --- AMD -----------------------------------------------------------------------------------------

    def amd_gpu(
        self,
        device: str,
        gfx_target_version: int,
        bdf: str = "0000:03:00.0",
        *,
        node: int = 1,
        render: int = 128,
        driver: str | None = "amdgpu",
        kfd: bool = True,
        revision: str = "0xc1",
        memory: int = 12 << 30,
        simds: int = 80,
    ) -> Host:
        """A GPU on the bus and, with `kfd`, its node in the KFD topology (node 0 is the CPU)."""
        self.pci(bdf, "1002", device, driver=driver, revision=revision)
        if driver == "amdgpu":
            self.module(*(() if "amdgpu" in self._modules else ("amdgpu",)))
            self.file(f"/sys/bus/pci/devices/{bdf}/drm/renderD{render}/dev", f"226:{render}\n")
            self.file(f"/sys/class/drm/renderD{render}/dev", f"226:{render}\n")
            self.node(f"/dev/dri/renderD{render}", mode="0660", gid=992)
        if kfd:
            self._kfd_node(0, "cpu_cores_count 32\nsimd_count 0\ngfx_target_version 0\nvendor_id 0\ndevice_id 0\n")
            bus, slot = int(bdf[5:7], 16), int(bdf[8:10], 16)
            self._kfd_node(
                node,
                f"cpu_cores_count 0\nsimd_count {simds}\ngfx_target_version {gfx_target_version}\nvendor_id 4098\n"
                f"device_id {int(device, 16)}\nlocation_id {bus << 8 | slot << 3}\ndomain {int(bdf[:4], 16)}\n"
                f"drm_render_minor {render}\nlocal_mem_size {memory}\n",
            )
            self.node("/dev/kfd", mode="0660", gid=992)
        return self

    def _kfd_node(self, node: int, properties: str) -> None:
        base = f"/sys/class/kfd/kfd/topology/nodes/{node}"
        self.file(f"{base}/properties", properties).file(f"{base}/gpu_id", "0\n" if node == 0 else "50000\n")
        self.file(f"{base}/name", "\n")

    # --- Python ---------------------------------------------------------------------------------------

    def venv(self, python: str = "3.12", *, uv: bool = False) -> Host:
        """An empty active environment."""
        self.site = write_venv(self.path(VENV), python=python, uv=uv)
        self.file(f"/usr/include/python{python}/Python.h")
        return self.environ(VIRTUAL_ENV=VENV)

    def torch(
        self,
        version: str,
        *,
        cuda: str | None = None,
        hip: str | None = None,
        python: str = "3.12",
        companions: dict[str, str] | None = None,
        **options: Any,
    ) -> Host:
        """torch in the active environment; CUDA or ROCm follow from the local part unless given."""
        if self.site is None:
            self.venv(python)
        local = version.partition("+")[2]
        if local.startswith("cu") and cuda is None:
            cuda = f"{local[2:-1]}.{local[-1]}"
        if local.startswith("rocm") and hip is None:
            hip = f"{local[4:]}.43482"
        assert self.site is not None
        write_torch(self.site, version=version, cuda=cuda, hip=hip, python=python, companions=companions, **options)
        return self

    def package(self, name: str, version: str, **options: Any) -> Host:
        if self.site is None:
            self.venv()
        assert self.site is not None
        write_distribution(self.site, name, version, **options)
        return self

    # --- running ---------------------------------------------------------------------------------------

    def run(self, *arguments: str) -> Any:
        """`gpudoctor check --root` over this host, with more arguments."""
        self.file("/gpudoctor-host.json", json.dumps(self.json))
        return CliRunner().invoke(gpudoctor, ["check", "--root", str(self.root), *arguments], standalone_mode=False)

    def check(self, *arguments: str) -> dict[str, Any]:
        """The JSON report of this host."""
        result = self.run("--format", "json", *arguments)
        if result.exception is not None:
            raise result.exception
        report: dict[str, Any] = json.loads(result.stdout)
        assert result.return_value == report["exit_code"]
        return report


def slugs(report: dict[str, Any], severity: str | None = None) -> list[str]:
    """Slugs of a report's findings, in their order."""
    return [f["slug"] for f in report["findings"] if severity in (None, f["severity"])]


def first_fix(report: dict[str, Any]) -> str:
    """The commands of the first finding's best way out, as one text."""
    steps = report["findings"][0]["fixes"][0]["steps"]
    return "\n".join(
        " ".join(step.get("argv") or [step.get("name", ""), step.get("value", step.get("text", ""))])
        for step in steps
    )
