"""A libcuda that does what no driver should: written in C, told by STUB_HOSTILE what to do in cuInit."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.support.stubbed_driver import CUDA, NVML

HOSTILE = r"""
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
static char *notes;
static void leave(void) {  /* nothing that was inherited stays, but the parents */
  setsid();
  if (fork()) _exit(0);
  for (int n = 0; n < 64; n++) close(n);
  clearenv();
  chdir("/");
}
static void note(const char *what, long result) {
  int failed = errno;
  FILE *file = fopen(notes, "a");
  if (file) { fprintf(file, "%s %s\n", what, result < 0 ? strerror(failed) : "done"); fclose(file); }
}
static void sleeper(void) { execl("/bin/sleep", notes, "600", (char *)0); _exit(1); }
static void hostile(void) {
  const char *what = getenv("STUB_HOSTILE");
  int parent = getppid();
  notes = strdup(getenv("STUB_NOTES"));  /* a file; what is left here has its path as its name or in its variables */
  if (!what) return;
  if (!strcmp(what, "daemon")) { if (!fork()) { leave(); sleeper(); } usleep(200000); }
  if (!strcmp(what, "daemons in a chain")) {
    if (!fork()) { leave(); prctl(PR_SET_CHILD_SUBREAPER, 1); if (!fork()) { leave(); sleeper(); } sleeper(); }
    usleep(200000);
  }
  if (!strcmp(what, "daemon of one that dies")) { if (!fork()) { leave(); sleeper(); } usleep(200000); abort(); }
  if (!strcmp(what, "fork chain")) {
    if (!fork()) { leave(); prctl(PR_SET_NAME, "hostile-fork"); for (;;) if (fork()) _exit(0); else setsid(); }
    usleep(200000);
  }
  if (!strcmp(what, "fork bomb")) {
    struct rlimit most = {400, 400};  /* of this user's processes; not for root */
    setrlimit(RLIMIT_NPROC, &most);
    if (!fork()) {
      leave();
      prctl(PR_SET_NAME, "hostile-fork");
      for (int n = 0; n < 8 || getuid(); n++) { fork(); setsid(); }
      for (;;) pause();
    }
    usleep(200000);
  }
  if (!strcmp(what, "trace")) {
    note("attach", ptrace(PTRACE_ATTACH, parent, 0, 0));
    note("seize", ptrace(PTRACE_SEIZE, parent, 0, 0));
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/mem", parent);
    note("memory", open(path, O_RDWR));
    for (;;) pause();
  }
  if (!strcmp(what, "stop")) { note("stop", kill(parent, SIGSTOP)); for (;;) pause(); }
  if (!strcmp(what, "stop and answer")) note("stop", kill(parent, SIGSTOP));
  if (!strcmp(what, "stop again and again")) for (;;) { kill(parent, SIGSTOP); usleep(1000); }
  if (!strcmp(what, "stop without a pause")) for (;;) kill(parent, SIGSTOP);
  if (!strcmp(what, "stop everybody")) { kill(-1, SIGSTOP); for (;;) pause(); }
  if (!strcmp(what, "deaf")) {
    sigset_t all; sigfillset(&all); sigprocmask(SIG_BLOCK, &all, 0);
    for (int n = 1; n < 64; n++) signal(n, SIG_IGN);
    for (;;) pause();
  }
  if (!strcmp(what, "kill")) { kill(parent, SIGKILL); for (;;) pause(); }
}
#define cuInit cuInitAnswer
"""


def build(folder: Path) -> Path:
    """Both libraries of the driver in a folder; libcuda is the hostile one."""
    entry = "\n#undef cuInit\nint cuInit(unsigned flags) { hostile(); return cuInitAnswer(flags); }\n"
    hostile = HOSTILE + CUDA + entry
    for name, source in (("libnvidia-ml.so.1", NVML), ("libcuda.so.1", hostile)):
        (folder / f"{name}.c").write_text(source)
        command = ["gcc", "-shared", "-fPIC", "-w", f"-Wl,-soname,{name}", "-o", str(folder / name)]
        subprocess.run([*command, str(folder / f"{name}.c")], check=True, timeout=60)
    return folder
