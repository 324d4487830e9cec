"""What the steps of a restore tell each other, and the next process after a crash."""

import json
from pathlib import Path
from typing import Any, Optional

from gpuguard.agent.procedures.procedure import Context
from gpuguard.agent.store.reading import checkpoint_folder
from gpuguard.model.jobs import JobPolicy, ProcessRef
from gpuguard.model.manifests import Manifest


def job_name(ctx: Context) -> str:
    """Return the job's name."""
    return str(ctx.params["job"])


def host_name(ctx: Context) -> str:
    """Return this host's name in the inventory."""
    return str(ctx.params["host"])


def source_folder(ctx: Context) -> Path:
    """Return the checkpoint's folder in the store."""
    names = (str(ctx.params[name]) for name in ("store", "job", "checkpoint"))
    return checkpoint_folder(*names)


def policy_of(ctx: Context) -> JobPolicy:
    """Return the policy the job gets here; its store is the one it is restored from."""
    data: dict[str, Any] = dict(ctx.params.get("policy") or {})
    data["store"] = data.get("store") or str(ctx.params["store"])
    return JobPolicy.from_dict(data)


def verified_path(ctx: Context) -> Path:
    """Return where the manifest lies once it is verified; later steps read no other."""
    return ctx.folder / "manifest.json"


def verified_manifest(ctx: Context) -> Manifest:
    """Return the verified manifest."""
    data: dict[str, Any] = json.loads(verified_path(ctx).read_text())
    return Manifest.from_dict(data)


def supervisor_ref(ctx: Context) -> Optional[ProcessRef]:
    """Return the supervisor of the restored tree, None before it is known."""
    found = ctx.facts.get("supervisor")
    return ProcessRef.from_dict(found) if found else None


def root_ref(ctx: Context) -> ProcessRef:
    """Return the first process of the restored tree."""
    return ProcessRef.from_dict(ctx.facts["root"])
