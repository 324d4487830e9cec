"""The unit that settles open procedures at boot, for a node that reboots in the middle of one.

It stands only while a journal is open: written before the first step, removed with the last result.
Where systemd does not run there is none, and the next contact settles what is open.
"""

import shlex
from pathlib import Path

from gpuguard.agent.disk import sync_folder, write_synced
from gpuguard.agent.paths import NodePaths
from gpuguard.agent.places import log_exception
from gpuguard.agent.procedures import records
from gpuguard.agent.procedures.detach import agent_argv, systemd_runs

NAME = "gpuguard-recover.service"
UNITS = Path("/etc/systemd/system")
_WANTED_BY = "multi-user.target"


def unit_text(root: Path, command: tuple[str, ...]) -> str:
    """Return the unit's text; `command` settles what is open below `root` and ends.

    It waits for the network file systems: what is settled may lie in a store on one of them. If
    the state folder is not mounted then, nothing is done.
    """
    return f"""\
[Unit]
Description=Settle the gpuguard procedures that a reboot cut off
After=local-fs.target remote-fs.target network-online.target
Wants=network-online.target
ConditionPathIsDirectory={_escape(str(root / "procedures"))}

[Service]
Type=oneshot
Environment={_quote(f"GPUGUARD_NODE_ROOT={root}")}
ExecStart={" ".join(_quote(word) for word in command)}
KillMode=process
TimeoutStartSec=infinity

[Install]
WantedBy={_WANTED_BY}
"""


def install(paths: NodePaths, units: Path = UNITS) -> None:
    """Write the unit, wanted at boot; raises OSError. No daemon needs to know before the boot."""
    text = unit_text(paths.root, agent_argv("boot"))
    path, link = units / NAME, units / f"{_WANTED_BY}.wants" / NAME
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        write_synced(path, text.encode(), 0o644)
    link.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    if not link.is_symlink():
        link.symlink_to(path)
        sync_folder(link.parent)


def remove(units: Path = UNITS) -> None:
    """Take the unit away; raises OSError."""
    for path in (units / f"{_WANTED_BY}.wants" / NAME, units / NAME):
        path.unlink(missing_ok=True)


def stand_ready(paths: NodePaths) -> None:
    """Have the unit stand while a journal is open; a node that refuses it is recovered later."""
    if systemd_runs():
        try:
            install(paths)
        except OSError:
            log_exception()


def stand_down(paths: NodePaths) -> None:
    """Remove the unit once nothing is open any more."""
    if systemd_runs() and not records.open_folders(paths):
        try:
            remove()
            if records.open_folders(paths):
                install(paths)  # one began while we looked
        except OSError:
            log_exception()


def _quote(word: str) -> str:
    """Quote a word for a unit file: systemd reads %, $ and backslashes in its own way."""
    text = _escape(word).replace("$", "$$")
    return text if shlex.quote(word) == word else '"' + text.replace('"', '\\"') + '"'


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "%%")
