"""Runs smoke kernels in an interpreter that has torch, some with a fault planted in torch; no test itself.

Given by `-c`, as gpudoctor gives its child the program: jobs as JSON on stdin, results as JSON on stdout.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import json
import math
import sys


def load(folder):
    name = "gpudoctor_smoke_kernels"
    spec = importlib.util.spec_from_file_location(name, folder + "/__init__.py", submodule_search_locations=[folder])
    package = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(package)
    return package, importlib.import_module(name + ".kernel")


def damage(tensor, how):
    """A copy of the tensor with a fault in it, of the same type and shape."""
    torch = sys.modules["torch"]
    bad = tensor.detach().clone(memory_format=torch.contiguous_format)
    parts = torch.view_as_real(bad) if bad.is_complex() else bad
    flat = parts.view(-1)
    floats = flat.is_floating_point()
    if how == "element":
        at = int(flat.to(torch.float64).abs().argmax())
        factor = {torch.float32: 1.01, torch.float64: 1.01, torch.float16: 1.03}.get(flat.dtype, 1.2)
        flat[at] = flat[at] * factor if floats else (~flat[at] if flat.dtype == torch.bool else flat[at] + 1)
    elif how == "zeroed tail":
        flat[flat.numel() * 7 // 8 :] = 0
    elif how == "nan":
        flat[flat.numel() // 2] = math.nan
    elif how == "infinity":
        flat[0] = math.inf
    elif how == "unwritten":
        flat[-1:].view(torch.uint8).fill_(255)
    elif how == "shifted":
        parts[...] = parts.view(-1).roll(1).view(parts.shape)
    elif how == "tf32":
        bits = flat.view(torch.int32)
        bits[...] = (bits + 0x1000) & ~0x1FFF
    elif how == "scaled":
        flat.mul_(1.1)
    else:
        raise ValueError(how)
    return bad


def damaged(function, how, part):
    @functools.wraps(function)
    def wrong(*args, **options):
        torch = sys.modules["torch"]
        if how == "tf32 factors":
            args = [damage(arg, "tf32") for arg in args]
            return function(*args, **options)
        if how.startswith("gradient "):
            for arg in args:
                if isinstance(arg, torch.Tensor) and arg.requires_grad:
                    arg.register_hook(lambda slope: damage(slope, how[len("gradient ") :]))
            return function(*args, **options)
        result = function(*args, **options)
        hit = result if isinstance(result, torch.Tensor) else result[part]
        # Scratch memory of the comparison itself is left alone.
        if hit.dtype == torch.bool and how not in ("element", "shifted"):
            return result
        bad = damage(hit, how)
        if options.get("out") is not None or function.__name__.endswith("_"):
            with torch.no_grad():
                hit[...] = bad
            return result
        if hit.requires_grad:
            bad = hit + (bad - hit).detach()
        if isinstance(result, torch.Tensor):
            return bad
        return tuple(bad if at == part else value for at, value in enumerate(result))

    return wrong


def planted(job):
    """Put the job's fault into torch; what takes it out again."""
    torch = sys.modules["torch"]
    path, _, part = job["fault"][0].partition(":")
    *owners, name = path.split(".")
    owner = functools.reduce(getattr, owners, torch)
    before = getattr(owner, name)
    setattr(owner, name, damaged(before, job["fault"][1], int(part or 0)))
    return lambda: setattr(owner, name, before)


def settings():
    torch = sys.modules["torch"]
    cuda, cudnn = torch.backends.cuda, torch.backends.cudnn
    return [
        cuda.matmul.allow_tf32,
        cudnn.allow_tf32,
        cuda.matmul.allow_fp16_reduced_precision_reduction,
        torch.get_float32_matmul_precision(),
        torch.get_default_dtype() is torch.float32,
        torch.is_grad_enabled(),
        torch.initial_seed(),
        getattr(cuda, "flash_sdp_enabled", bool)(),
        getattr(cuda, "math_sdp_enabled", bool)(),
    ]


def perform(kernels, library, job):
    torch = sys.modules["torch"]
    kernel = kernels[job["kernel"]]
    restore = planted(job) if job.get("fault") else lambda: None
    before = settings()
    result = dict(job)
    try:
        outcome = kernel.function(library.Run(torch, "cpu", job["dtype"], job["seed"], kernel.seconds))
    except library.Skip as why:
        result.update(status="skipped", detail=str(why))
    except Exception as error:
        result.update(status="error", detail=f"{type(error).__name__}: {error}")
    else:
        right = outcome.error is None or outcome.error <= outcome.tolerance
        result.update(status="pass" if right else "wrong", detail=outcome.detail)
        result.update(error=repr(outcome.error), tolerance=outcome.tolerance)
    finally:
        restore()
    result["restored"] = settings() == before
    return result


def main():
    asked = json.load(sys.stdin)
    sys.dont_write_bytecode = True
    package, library = load(asked["folder"])
    importlib.import_module("torch")

    kernels = {kernel.name: kernel for kernel in package.all_kernels()}
    json.dump([perform(kernels, library, job) for job in asked["jobs"]], sys.stdout)


if __name__ == "__main__":
    main()
