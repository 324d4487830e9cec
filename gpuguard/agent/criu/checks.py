"""Whether CRIU is there, new enough for this kernel, and content with it."""

import platform
import shutil

from gpuguard.agent.bounded import run_bounded
from gpuguard.agent.criu.invocations import criu_version, judge_version
from gpuguard.agent.host.checks import finding
from gpuguard.model.plans import Finding, Level

_SECONDS = 30.0  # `criu check` takes 0.04 s on an idle host
_INSTALL = "install CRIU 4.2 or newer (a newer Debian release has it)"


def check_criu() -> list[Finding]:
    """Check CRIU's version, and let it check the kernel within 30 seconds."""
    path = shutil.which("criu")
    if path is None:
        return [finding(Level.ERROR, "criu-missing", "CRIU is missing", _INSTALL)]
    version = criu_version()
    if version is None:
        text = f"`{path} --version` does not start, or does not say its version"
        return [finding(Level.ERROR, "criu-broken", text, _INSTALL)]
    problem = judge_version(version, platform.release())
    if problem:
        return [finding(Level.ERROR, "criu-too-old", problem, _INSTALL)]
    return [_self_check(path, version)]


def _self_check(path: str, version: str) -> Finding:
    done = run_bounded((path, "check"), _SECONDS)
    if done.code == 0:
        return finding(Level.OK, "criu", f"CRIU {version}, content with this kernel")
    if done.code is None:
        text = f"`{path} check` hangs: no answer within {_SECONDS:.0f} s"
        return finding(Level.ERROR, "criu-check", text, "look at `dmesg` on the host")
    text = f"`{path} check` fails: {done.text}"
    return finding(Level.ERROR, "criu-check", text, f"run `{path} check -v4` on the host")
