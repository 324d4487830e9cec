"""Everything that would make a restore fail here, as one list, before anything is touched."""

from gpuguard.agent.criu.invocations import criu_version
from gpuguard.agent.host.cordons import require_no_cordon
from gpuguard.agent.procedures.procedure import Context, Step
from gpuguard.agent.restoring import facts
from gpuguard.agent.restoring.host_sight import look_around
from gpuguard.agent.restoring.judging import Question, judge_copies, judge_store
from gpuguard.agent.store.identity import recognise_store
from gpuguard.agent.store.write import probe_folder, unwritable
from gpuguard.checkpoint.compatibility import judge
from gpuguard.model.errors import RefusedError
from gpuguard.model.plans import Finding, Level

_MIB = 1024 * 1024


class Preflight(Step):
    """Check host and checkpoint; what a manifest says is not believed before `verify`."""

    name = "preflight"

    def do(self, ctx: Context) -> None:
        """Look at everything and write down what was seen.

        Raises:
            RefusedError: with the whole list of reasons.
        """
        require_no_cordon(ctx.paths, facts.host_name(ctx))
        _require_store(ctx)
        host = facts.host_name(ctx)
        store, job, checkpoint = (str(ctx.params[key]) for key in ("store", "job", "checkpoint"))
        question = Question(store, job, host, checkpoint)
        manifest, found = judge_store(ctx.paths, question)
        found += judge_copies(ctx.paths, question, manifest)
        if manifest is not None:
            found += judge(manifest, look_around(host, manifest, question.folder))
        errors = [item for item in found if item.level is Level.ERROR]
        if errors or manifest is None:
            raise refusal(ctx, errors)
        text = f"{len(manifest.tree)} processes, {manifest.bytes // _MIB} MiB"
        ctx.record(text, criu_version=criu_version())


def _require_store(ctx: Context) -> None:
    """Look at the store as the claim of the epoch will need it, when it is too late to refuse."""
    store = str(ctx.params["store"])
    try:
        recognise_store(ctx.paths, store)
        folder = facts.source_folder(ctx).parent
        if folder.is_dir():
            probe_folder(folder)
    except OSError as error:
        raise unwritable(store, error) from error


def refusal(ctx: Context, errors: list[Finding]) -> RefusedError:
    """Build the refusal that lists everything found."""
    checkpoint, host = ctx.params["checkpoint"], facts.host_name(ctx)
    problems = [item.text for item in errors]
    text = f"{checkpoint} cannot be restored on {host}: " + "; ".join(problems)
    hint = f"put that right, or choose another host or checkpoint of {facts.job_name(ctx)}"
    if len(errors) == 1 and errors[0].remedy:
        hint = errors[0].remedy
    brief = f"refused: {', '.join(item.code for item in errors)}"
    return RefusedError(text, hint, {"brief": brief, "problems": problems})
