"""Stub libraries of the drivers, written in C, and a host that loads them. Children import it: nothing of pytest."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gpudoctor.host import LiveHost
from gpudoctor.machine import Fact, Library, LoadPath
from gpudoctor.probes.amd_answers import LIBRARY

# STUB_NVML: status of nvmlInit, or "hang", "crash", "noise"; STUB_GPUS: how many; STUB_LOST: index of a lost one;
# STUB_STUCK: index of one that never answers; STUB_MIG: slices on GPU 0.
NVML = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static int is(const char *n, const char *v) { const char *s = getenv(n); return s && !strcmp(s, v); }
static int num(const char *n, int d) { const char *s = getenv(n); return s ? atoi(s) : d; }
static int gpus(void) { return num("STUB_GPUS", 1); }
int nvmlInit_v2(void) {
  if (is("STUB_NVML", "hang")) for (;;) pause();
  if (is("STUB_NVML", "crash")) *(volatile int *)0 = 1;
  if (is("STUB_NVML", "noise")) for (int i = 0; i < 2000; i++) puts("{\"nvml\": 1} \xff\xfe");
  return num("STUB_NVML", 0);
}
const char *nvmlErrorString(int s) {
  return s == 18 ? "Driver/library version mismatch" : s == 9 ? "Driver Not Loaded"
       : s == 4 ? "Insufficient Permissions" : s == 15 ? "GPU is lost" : "Unknown Error";
}
int nvmlSystemGetDriverVersion(char *b, unsigned n) { snprintf(b, n, "580.95.05"); return 0; }
int nvmlSystemGetCudaDriverVersion(int *v) { *v = 13000; return 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = gpus(); return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **h) {
  if ((int)i == num("STUB_STUCK", -1)) for (;;) pause();
  if ((int)i == num("STUB_LOST", -1)) return 15;
  *h = (void *)(long)(i + 1); return 0;
}
static int slice(void *h) { return (long)h > 100; }
int nvmlDeviceGetName(void *h, char *b, unsigned n) {
  snprintf(b, n, slice(h) ? "NVIDIA H100 80GB HBM3 MIG 1g.10gb" : "NVIDIA H100 80GB HBM3"); return 0;
}
int nvmlDeviceGetUUID(void *h, char *b, unsigned n) {
  snprintf(b, n, "%s-%ld", slice(h) ? "MIG" : "GPU", (long)h); return 0;
}
struct pci { char legacy[16]; unsigned domain, bus, device, id, sub; char full[32]; };
int nvmlDeviceGetPciInfo_v3(void *h, struct pci *p) {
  memset(p, 0, sizeof *p); p->id = 0x233010DE; snprintf(p->full, 32, "00000000:%02lX:00.0", 0xAB + (long)h); return 0;
}
struct memory { unsigned long long total, free, used; };
int nvmlDeviceGetMemoryInfo(void *h, struct memory *m) {
  if (is("STUB_MEMORY", "shared")) return 3;
  m->total = (slice(h) ? 10ull : 80ull) << 30; m->used = 1ull << 30; return 0;
}
int nvmlDeviceGetCudaComputeCapability(void *h, int *a, int *b) { *a = 9; *b = 0; return 0; }
int nvmlDeviceGetComputeMode(void *h, int *m) { *m = num("STUB_MODE", 0); return 0; }
int nvmlDeviceGetTotalEccErrors(void *h, int type, int counter, unsigned long long *n) {
  if (type != 1) return 2;
  *n = counter ? 8 : num("STUB_ECC", 0); return 0;
}
int nvmlDeviceGetRemappedRows(void *h, unsigned *c, unsigned *u, unsigned *p, unsigned *f) {
  *c = 0; *u = 1; *p = 1; *f = 0; return 0;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void *h, unsigned *n, void *infos) { *n = 3; return 7; }
int nvmlDeviceGetMigMode(void *h, unsigned *a, unsigned *b) {
  if (!getenv("STUB_MIG")) return 3;
  *a = 1; *b = 1; return 0;
}
int nvmlDeviceGetMaxMigDeviceCount(void *h, unsigned *n) { *n = 7; return 0; }
int nvmlDeviceGetMigDeviceHandleByIndex(void *h, unsigned i, void **m) {
  if ((int)i >= num("STUB_MIG", 0)) return 6;
  *m = (void *)(long)(101 + i); return 0;
}
static int text(char *b, unsigned n, const char *t) { snprintf(b, n, "%s", t); return 0; }
int nvmlDeviceGetVbiosVersion(void *h, char *b, unsigned n) { return text(b, n, "96.00.A5.00.01"); }
int nvmlDeviceGetInforomImageVersion(void *h, char *b, unsigned n) { return text(b, n, "G520.0200.00.05"); }
int nvmlDeviceGetGspFirmwareVersion(void *h, char *b) { return text(b, 64, "580.95.05"); }
int nvmlDeviceGetCurrPcieLinkGeneration(void *h, unsigned *n) { *n = 1; return 0; }
int nvmlDeviceGetMaxPcieLinkGeneration(void *h, unsigned *n) { *n = 5; return 0; }
int nvmlDeviceGetCurrPcieLinkWidth(void *h, unsigned *n) { *n = 8; return 0; }
int nvmlDeviceGetMaxPcieLinkWidth(void *h, unsigned *n) { *n = 16; return 0; }
int nvmlDeviceGetEnforcedPowerLimit(void *h, unsigned *n) { *n = 650000; return 0; }
int nvmlDeviceGetPowerManagementDefaultLimit(void *h, unsigned *n) { *n = 700000; return 0; }
int nvmlDeviceGetPersistenceMode(void *h, unsigned *n) { *n = 1; return 0; }
int nvmlDeviceGetCurrentClocksThrottleReasons(void *h, unsigned long long *n) { *n = 0x45; return 0; }
int nvmlDeviceGetNvLinkState(void *h, unsigned link, unsigned *n) {
  if (link >= 18 || getenv("STUB_NO_NVLINK")) return 3;
  *n = link != 4; return 0;
}
struct fabric { unsigned char cluster[16]; int status; unsigned clique; unsigned char state; };
int nvmlDeviceGetGpuFabricInfo(void *h, struct fabric *f) { memset(f, 0, sizeof *f); f->state = 2; return 0; }
int nvmlDeviceGetVirtualizationMode(void *h, unsigned *m) { *m = num("STUB_VIRTUAL", 0); return 0; }
struct expiry { unsigned year; unsigned short parts[5]; unsigned char status; };
struct feature { unsigned code, state; char info[128], product[128]; unsigned enabled; struct expiry expiry; };
struct licences { int supported; unsigned count; struct feature features[3]; };
int nvmlDeviceGetGridLicensableFeatures_v4(void *h, struct licences *l) {
  memset(l, 0, sizeof *l); l->supported = 1; l->count = 2;
  l->features[1].enabled = 1; l->features[1].state = num("STUB_LICENSED", 0); return 0;
}
"""

CUDA = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static int is(const char *n, const char *v) { const char *s = getenv(n); return s && !strcmp(s, v); }
static int hidden(void) { return is("CUDA_VISIBLE_DEVICES", ""); }
int cuInit(unsigned flags) {
  if (is("STUB_CUDA", "hang")) for (;;) pause();
  if (is("STUB_CUDA", "abort")) abort();
  if (hidden()) return 100;
  return getenv("STUB_CUDA") ? atoi(getenv("STUB_CUDA")) : 0;
}
int cuDriverGetVersion(int *v) { *v = 13020; return 0; }
int cuGetErrorName(int s, const char **t) { *t = "CUDA_ERROR_SYSTEM_NOT_READY"; return 0; }
int cuGetErrorString(int s, const char **t) { *t = "system not yet initialized"; return 0; }
int cuDeviceGetCount(int *n) { *n = 1; return 0; }
int cuDeviceGet(int *d, int i) { *d = i; return 0; }
int cuDeviceGetName(char *b, int n, int d) { snprintf(b, n, "NVIDIA H100 80GB HBM3"); return 0; }
int cuDeviceGetPCIBusId(char *b, int n, int d) { snprintf(b, n, "0000:AC:00.0"); return 0; }
int cuDeviceGetAttribute(int *v, int a, int d) {
  *v = a == 75 ? 9 : a == 124 ? is("STUB_DMA_BUF", "1") : 0; return 0;
}
int cuDeviceTotalMem_v2(size_t *n, int d) { *n = 80ull << 30; return 0; }
"""

HSA = r"""
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
typedef struct { uint64_t handle; } handle;
int hsa_init(void) {
  const char *s = getenv("STUB_HSA");
  if (s && !strcmp(s, "hang")) for (;;) pause();
  if (s && !strcmp(s, "crash")) abort();
  return s ? (int)strtol(s, 0, 0) : 0;
}
int hsa_status_string(int s, const char **t) { *t = "HSA_STATUS_ERROR_OUT_OF_RESOURCES: no memory"; return 0; }
int hsa_iterate_agents(int (*f)(handle, void *), void *d) {
  for (uint64_t i = 1; i <= 2; i++) { handle h = {i}; f(h, d); }
  return 0;
}
int hsa_agent_get_info(handle a, int what, void *v) {
  if (what == 0) strcpy(v, a.handle == 1 ? "AMD Ryzen" : "gfx1100");
  else if (what == 17) *(uint32_t *)v = a.handle == 1 ? 0 : 1;
  else if (what == 0xA006) *(uint32_t *)v = 0x300;
  else if (what == 0xA00F) *(uint32_t *)v = 1;
  else if (what == 0xA000) *(uint32_t *)v = 0x744c;
  else if (what == 0xA009) strcpy(v, "AMD Radeon RX 7900 XTX");
  else return 0x1001;
  return 0;
}
static const char *names[] = {"amdgcn-amd-amdhsa--gfx1100", "amdgcn-amd-amdhsa--gfx11-generic"};
int hsa_agent_iterate_isas(handle a, int (*f)(handle, void *), void *d) {
  for (uint64_t i = 0; i < 2; i++) { handle h = {i}; f(h, d); }
  return 0;
}
int hsa_isa_get_info_alt(handle i, int what, void *v) {
  if (what == 0) *(uint32_t *)v = strlen(names[i.handle]) + 1; else strcpy(v, names[i.handle]);
  return 0;
}
"""


class StubbedHost(LiveHost):
    """The running system, with the variables of an examined process that would load the stubs."""

    def __init__(self, folder: Path, **variables: str) -> None:
        self._environ = {"PATH": str(folder), "LD_LIBRARY_PATH": str(folder), **variables}

    @property
    def environ(self) -> Mapping[str, str]:
        return self._environ

    def run(self, argv: object, seconds: float) -> Fact[object]:  # type: ignore[override]
        return Fact(state="absent", source="nvidia-smi", why="no such command")


def on_path(stubs: Path) -> LoadPath:
    return LoadPath(found=(Library(LIBRARY, str(stubs / LIBRARY)),))
