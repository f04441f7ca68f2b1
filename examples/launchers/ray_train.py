"""Ray Train: each worker checks the GPU that Ray gave it before it does anything else.

Ray chooses the node when the job already runs, so no entrypoint can check it. What a worker raises ends the run with
the cause, on the driver's screen. gpudoctor-cli must be installed in the environment of the workers.
"""

import sys

import gpudoctor


def refuse_bad_gpu(require: str = "") -> None:
    """Raise RuntimeError with the first problem and its fix, if there is one. Ray's own variables are respected: a
    worker is judged by the GPUs that it was given."""
    report = gpudoctor.diagnose(level="driver", python=sys.executable, require=require.split(";") if require else ())
    if report.verdict == "unknown":
        raise RuntimeError("; ".join(question.why for question in report.not_judged if question.matters))
    if not report.ok:
        problem = report.findings[0]
        fix = f" Fix: {problem.fixes[0].title}." if problem.fixes else ""
        raise RuntimeError(f"{problem.slug} [{problem.id}]: {problem.message}{fix}")


def train(config: dict) -> None:
    """What each worker runs."""
    refuse_bad_gpu(config.get("require", ""))
    # ... the training


if __name__ == "__main__":
    from ray.train import RunConfig, ScalingConfig
    from ray.train.torch import TorchTrainer

    TorchTrainer(
        train,
        train_loop_config={"require": "gpu>=1"},
        scaling_config=ScalingConfig(num_workers=2, use_gpu=True),
        run_config=RunConfig(),
    ).fit()
