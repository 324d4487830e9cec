"""Verify the checkpoint, and put the job's files in place."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Optional

from gpuguard.agent.procedures.procedure import Context, Step
from gpuguard.agent.restoring import facts
from gpuguard.agent.restoring.target_files import (
    Change,
    apply_change,
    look_at,
    plan_change,
    plan_folders,
    undo_change,
)
from gpuguard.agent.store.reading import job_uid
from gpuguard.agent.store.verify import examine_folder
from gpuguard.checkpoint.file_decisions import FileAction, FileDecision, decide_file
from gpuguard.model.errors import GpuguardError, RefusedError
from gpuguard.model.manifests import Manifest, OpenFile

_REPORT_SECONDS = 0.5
_DELETED = " (deleted)"


class Verify(Step):
    """Check signature and every byte; CRIU checks neither."""

    name = "verify"

    def do(self, ctx: Context) -> None:
        """Verify in place, and keep the manifest that was verified.

        Raises:
            RefusedError: with everything that is wrong.
        """
        folder = facts.source_folder(ctx)
        require_there(ctx, folder)
        signers = str(ctx.params.get("allowed_signers") or "")
        manifest, found = examine_folder(
            folder, facts.job_name(ctx), signers, _reporter(ctx), job_uid(folder.parent)
        )
        if manifest is None or found:
            raise RefusedError(
                f"checkpoint {folder.name} is not to be trusted: "
                + "; ".join(item.text for item in found),
                next((item.remedy for item in found if item.remedy), None),
                {"findings": [item.to_dict() for item in found]},
            )
        facts.verified_path(ctx).write_text(json.dumps(manifest.to_dict()))


def require_there(ctx: Context, folder: Path) -> None:
    """Tell a store that went away from a checkpoint that is bad; raises GpuguardError."""
    if not folder.exists():
        raise GpuguardError(
            f"{facts.host_name(ctx)} does not see {folder} any more: the store is gone, or the"
            " checkpoint was removed",
            f"mount the store, then gpuguard restore {facts.job_name(ctx)}",
        )


class Files(Step):
    """Make files and folders be as they were while the job was frozen."""

    name = "files"

    def do(self, ctx: Context) -> None:
        """Write the list of changes down, then make them.

        Raises:
            RefusedError: something changed since preflight.
            GpuguardError: the file system refuses.
        """
        manifest, folder = facts.verified_manifest(ctx), facts.source_folder(ctx)
        changes, texts = _plan(manifest, folder)
        note = f"{len(changes)} files and folders to put in place"
        ctx.record("; ".join([note, *texts]), changes=changes)
        for change in changes:
            try:
                apply_change(change, folder)
            except OSError as error:
                text = f"{change['path']} cannot be put in place: {error}"
                raise GpuguardError(text) from error

    def undo(self, ctx: Context) -> None:
        """Put every file back exactly as it was found."""
        for change in reversed(ctx.facts.get("changes", [])):
            undo_change(change)


def decide_files(manifest: Manifest, folder: Optional[Path]) -> list[tuple[OpenFile, FileDecision]]:
    """Decide for every file of the manifest; `folder` holds the captured copies, if there are."""
    decided = []
    for item in manifest.open_files:
        captured = folder / item.captured if folder and item.captured else None
        decided.append((item, decide_file(item, look_at(item, captured))))
    return decided


def _plan(manifest: Manifest, folder: Path) -> tuple[list[Change], list[str]]:
    decided = decide_files(manifest, folder)
    refused = [decision.text for _, decision in decided if decision.action is FileAction.REFUSE]
    if refused:
        raise RefusedError("files changed since they were looked at: " + "; ".join(refused))
    cwds = [process.cwd for process in manifest.tree if process.cwd.startswith("/")]
    needed = [cwd for cwd in cwds if not cwd.endswith(_DELETED)]
    for item, decision in decided:
        if decision.action is FileAction.MAKE_FOLDER:
            needed.append(item.path)
        elif decision.action is not FileAction.LEAVE:
            needed.append(str(Path(item.path).parent))
    changes = plan_folders(needed)
    for item, decision in decided:
        if decision.action is not FileAction.MAKE_FOLDER:
            change = plan_change(item, decision, manifest.checkpoint)
            changes += [change] if change else []
    return changes, [decision.text for _, decision in decided if decision.text]


def _reporter(ctx: Context) -> Callable[[int, int], None]:
    last = time.monotonic()

    def report(done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last >= _REPORT_SECONDS:
            last = time.monotonic()
            ctx.progress(f"verified {done} of {total} bytes", done=done, total=total)

    return report
