"""Programs that prove, without a GPU, that a framework finds what GPU work needs.

They import it, open its libraries through the real loader, and compare the versions that it compares itself.
"""

from __future__ import annotations

_CUDNN = """
import ctypes
def whole_cudnn(cudnn):
    for part in ("Graph", "Ops", "Cnn", "Adv"):
        assert getattr(cudnn, f"cudnn{part}VersionCheck")() == 0, f"the parts of cuDNN do not match: {part}"
"""
"""libcudnn opens its parts only here; they answer whether they are of one release."""

JAX = (
    _CUDNN
    + """
import warnings
warnings.simplefilter("error")
import jax
from importlib.metadata import entry_points
plugin = next(one.load() for one in entry_points(group="jax_plugins"))
plugin._import_extensions()
assert plugin.cuda_versions, "JAX does not use the plugin"
plugin._load_nvidia_libraries()
ctypes.CDLL(str(plugin._get_library_path()))
class Versions:
    real = plugin.cuda_versions
    def __getattr__(self, name):
        return getattr(self.real, name)
    cuda_device_count = staticmethod(lambda: 0)
    cupti_get_version = staticmethod(lambda: 10**9)  # it asks the driver
plugin.cuda_versions = Versions()
plugin._check_cuda_versions(raise_on_first_error=True)
whole_cudnn(ctypes.CDLL("libcudnn.so.9"))
"""
)

JAX_ROCM = """
import warnings
warnings.simplefilter("error")
import jax
from importlib.metadata import entry_points
assert [one for one in entry_points(group="jax_plugins") if "rocm" in one.name], "JAX has no plugin for ROCm"
"""

_LOADER = """
import os, re, subprocess
def lacking(library, names=()):
    '''Names that the loader does not find for a library, beside those that the process has.'''
    there = {os.path.basename(line.split()[-1]) for line in open("/proc/self/maps") if ".so" in line}
    tracing = {**os.environ, "LD_TRACE_LOADED_OBJECTS": "1"}
    loader = ["/lib64/ld-linux-x86-64.so.2", library]
    listed = subprocess.run(loader, capture_output=True, text=True, env=tracing).stdout
    found = re.findall(r"(\\S+) => not found", listed)
    return [name for name in found if name not in there and not name.startswith("libcuda.so")]
"""

ONNXRUNTIME = (
    _LOADER
    + """
import onnxruntime
there = onnxruntime.get_available_providers()
assert "CUDAExecutionProvider" in there, f"only {there}"
if hasattr(onnxruntime, "preload_dlls"):
    onnxruntime.preload_dlls()
folder = os.path.join(os.path.dirname(onnxruntime.__file__), "capi")
left = lacking(os.path.join(folder, "libonnxruntime_providers_cuda.so"))
assert not left, f"not found: {left}"
with open(os.path.join(folder, "libonnxruntime_providers_cuda.so"), "rb") as file:
    assert file.read(4) == b"\\x7fELF"
"""
)

_OPENED = '''
import ctypes, os, re, subprocess, tempfile
def opened_by(library, names):
    """Open libraries as the code in `library` would: the loader searches by the caller's own path."""
    dynamic = subprocess.run(["readelf", "-d", library], capture_output=True, text=True).stdout
    kind, folders = re.search(r"\\((RPATH|RUNPATH)\\).*\\[(.*)\\]", dynamic).groups()
    origin = os.path.dirname(os.path.realpath(library))
    path = ":".join(dict.fromkeys(folders.replace("$ORIGIN", origin).split(":")))
    tags = "--enable-new-dtags" if kind == "RUNPATH" else "--disable-new-dtags"
    code = b"#include <dlfcn.h>\\nvoid *o(const char *name) { return dlopen(name, RTLD_NOW); }\\n"
    code += b"char *e(void) { return dlerror(); }\\n"
    caller = os.path.join(tempfile.mkdtemp(), "caller.so")
    command = ["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", caller, f"-Wl,{tags},-rpath,{path}", "-ldl"]
    subprocess.run(command, input=code, check=True)
    calls = ctypes.CDLL(caller)
    calls.o.restype, calls.o.argtypes, calls.e.restype = ctypes.c_void_p, [ctypes.c_char_p], ctypes.c_char_p
    handles = {}
    for name in names:
        handles[name] = calls.o(name.encode())
        assert handles[name], calls.e().decode()
    return {name: ctypes.CDLL(name, handle=handle) for name, handle in handles.items()}
'''

TENSORFLOW = (
    _CUDNN
    + _OPENED
    + """
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow
assert tensorflow.test.is_built_with_cuda(), "a CPU build"
folder = os.path.dirname(tensorflow.__file__)
names = ["libcudart.so.12", "libcublas.so.12", "libcublasLt.so.12", "libcufft.so.11", "libcusparse.so.12"]
names.append("libcudnn.so.9")
opened_by(os.path.join(folder, "libtensorflow_cc.so.2"), ["libcusolver.so.11"])
opened = opened_by(os.path.join(folder, "libtensorflow_framework.so.2"), names)
version = opened["libcudnn.so.9"].cudnnGetVersion()
assert version >= 90300, f"cuDNN {version} is older than the one TensorFlow was built with"
whole_cudnn(opened["libcudnn.so.9"])
"""
)

CUPY = """
import warnings
warnings.filterwarnings("error", message="(?s).*multiple CuPy packages")
import cupy
from cupy.cuda import cufft, nvrtc
from cupy_backends.cuda.libs import cublas, curand, cusolver, cusparse
program = nvrtc.createProgram('extern "C" __global__ void f(float *x) { x[0] = 1; }', "f.cu", (), ())
nvrtc.compileProgram(program, ("-arch=sm_80",))
cufft.getVersion(), curand.getVersion(), cusolver._getVersion()
"""

NUMBA = """
import warnings
warnings.simplefilter("error")
from numba import config, cuda
assert not config.ENABLE_CUDASIM, "the simulator"
assert not config.DISABLE_CUDA, "CUDA is disabled"
code, _ = cuda.compile_ptx(lambda x: x + 1.0, "float64(float64)", device=True, cc=(8, 0))
assert ".target sm_80" in code
"""

CTRANSLATE2 = (
    _OPENED
    + """
import glob, ctranslate2
library, = glob.glob(os.path.join(os.path.dirname(ctranslate2.__file__), "..", "ctranslate2.libs", "libctranslate2*"))
opened_by(library, ["libcublas.so.12"])
"""
)

BITSANDBYTES = """
import ctypes, types, torch
from bitsandbytes.cextension import get_cuda_bnb_library_path
release = tuple(map(int, torch.version.cuda.split(".")))
specs = types.SimpleNamespace(
    cuda_version_tuple=release, cuda_version_string="".join(map(str, release)), has_cublaslt=True, has_imma=True
)
ctypes.CDLL(str(get_cuda_bnb_library_path(specs)))
"""
"""It loads the library that bitsandbytes itself chooses for the CUDA of torch."""
