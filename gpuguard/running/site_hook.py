"""A site's own command for cordons, as an argument list of the inventory; no shell reads it."""

import subprocess
from collections.abc import Sequence

from gpuguard.model.cordons import SITE, Cordon
from gpuguard.model.errors import GpuguardError
from gpuguard.model.inventory import CordonHook

_SECONDS = 60.0


def run_hook(words: Sequence[str], host: str, reason: str) -> None:
    """Run the command for `host`; nothing where the site names none.

    Raises:
        GpuguardError: it failed or did not end in time; with its own last words.
    """
    if not words:
        return
    code, said = _run(words, host, reason)
    if code != 0:
        text = f"{host}: the site's command {words[0]} ended with {code}: {said or 'no word'}"
        raise GpuguardError(text, "put it right and run this again; it is safe to repeat")


def ask_site(hook: CordonHook, host: str) -> tuple[Cordon, ...]:
    """Return the site's own cordon of `host`: exit 0 says yes, 1 says no, all else is unknown."""
    if not hook.status:
        return ()
    try:
        code, said = _run(hook.status, host, "")
    except GpuguardError as error:
        code, said = -1, error.message.removeprefix(f"{host}: ")
    if code == 1:
        return ()
    reason = said or "the site's own command says so"
    if code != 0:
        reason = f"unknown, {hook.status[0]} ended with {code}: {said or 'no word'}"
    return (Cordon(id="", owner=SITE, reason=reason, at=""),)


def _run(words: Sequence[str], host: str, reason: str) -> tuple[int, str]:
    argv = [word.replace("{host}", host).replace("{reason}", reason) for word in words]
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        text = f"{host}: the site's command {argv[0]} did not end within {_SECONDS:.0f} s"
        raise GpuguardError(text, "its state is not known: look at it by hand") from error
    except OSError as error:
        text = f"{host}: the site's command {argv[0]} cannot be started: {error.strerror}"
        raise GpuguardError(text, "correct `cordon:` in the inventory") from error
    lines = [line.strip() for line in (done.stdout + "\n" + done.stderr).splitlines()]
    return done.returncode, next((line for line in reversed(lines) if line), "")
