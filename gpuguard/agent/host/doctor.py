"""What would stop a checkpoint or a restore on this host, each with its remedy."""

import os
import stat
from pathlib import Path
from typing import Optional

from gpuguard.agent.criu.checks import check_criu
from gpuguard.agent.host.checks import (
    check_kernel,
    check_python,
    check_rights,
    check_tools,
    finding,
)
from gpuguard.agent.paths import NodePaths
from gpuguard.agent.store.folder_checks import check_folder
from gpuguard.agent.store.signature import KEY_NAME
from gpuguard.model.plans import Finding, Level


def diagnose(paths: NodePaths, stage: Path, store: Optional[Path]) -> list[Finding]:
    """Check everything on this host; findings of level OK say what was looked at."""
    found = [*check_python(), *check_rights(), *check_tools(), *check_kernel(), *check_criu()]
    found += check_private(paths)
    found += check_key(paths)
    found += check_folder("stage", stage)
    if store is None:
        text = "no store: nothing can be saved"
        remedy = "name a store in the policy of the inventory"
        found.append(finding(Level.ERROR, "store-none", text, remedy))
    else:
        found += check_folder("store", store)
    return found


def check_private(paths: NodePaths) -> list[Finding]:
    """Check that nobody but root can put code or keys where the agent finds them."""
    found = []
    for folder in (paths.root, paths.agent, paths.keys, paths.procedures):
        if not folder.is_dir():
            continue
        seen = folder.stat()
        if seen.st_uid != os.geteuid() or stat.S_IMODE(seen.st_mode) & 0o077:
            text = f"{folder} is owned by uid {seen.st_uid}, mode {stat.S_IMODE(seen.st_mode):04o}"
            remedy = f"chown root {folder} && chmod 0700 {folder}"
            found.append(finding(Level.ERROR, "agent-folder", text, remedy))
    return found or [finding(Level.OK, "agent-folder", f"{paths.root} is root's alone")]


def check_key(paths: NodePaths) -> list[Finding]:
    """Check that the signing key is whole and private, if it was made already."""
    key = paths.keys / KEY_NAME
    public = key.with_suffix(".pub")
    if not key.exists() and not public.exists():
        text = "the signing key is made at the first checkpoint"
        return [finding(Level.INFO, "signing-key", text)]
    if not key.exists() or not public.exists():
        gone = public if key.exists() else key
        text = f"half of the signing key is gone: {gone}"
        remedy = f"restore {gone} from a backup, or remove the other half and enrol a new key"
        return [finding(Level.ERROR, "signing-key", text, remedy)]
    if stat.S_IMODE(key.stat().st_mode) & 0o077:
        remedy = f"chmod 0600 {key}; if others have logins here, make a new key and enrol it"
        return [finding(Level.ERROR, "signing-key", f"{key} is readable by others", remedy)]
    return [finding(Level.OK, "signing-key", f"{key}")]
