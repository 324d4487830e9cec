"""Runs the machine's tools and turns their failures into errors that say what was tried."""

import subprocess
from collections.abc import Sequence

from gpuguard.model.errors import GpuguardError
from gpuguard.sandbox.lock import held_descriptors


def run_tool(argv: Sequence[str], stdin: str = "", doing: str = "") -> str:
    """Run a tool and return what it printed; raise GpuguardError with its own words if it fails."""
    try:
        done = subprocess.run(
            argv, input=stdin, capture_output=True, text=True, pass_fds=held_descriptors()
        )
    except FileNotFoundError as error:
        raise GpuguardError(
            f"sandbox: {argv[0]} is not installed", f"apt-get install the package with {argv[0]}"
        ) from error
    if done.returncode != 0:
        words = (done.stderr.strip() or done.stdout.strip() or "no reason given").splitlines()
        what = doing or f"running {' '.join(argv)}"
        raise GpuguardError(
            f"sandbox: {what}: {words[-1]} (exit {done.returncode})",
            details={"argv": list(argv), "output": words[-20:]},
        )
    return done.stdout
