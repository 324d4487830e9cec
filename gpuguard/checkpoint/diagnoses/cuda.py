"""Causes found in failed steps of the CUDA driver's checkpoint calls."""

import re
from typing import Optional

from gpuguard.checkpoint.diagnoses.cuda_memory import gpu_memory_full, memory_at_checkpoint
from gpuguard.checkpoint.diagnoses.cuda_refusals import BY_PROBLEM, OTHER
from gpuguard.checkpoint.diagnoses.facts import first, show
from gpuguard.checkpoint.diagnoses.rules import Explain, Finding, Sight, fill, job, rule

_CONTEXT = r"driver|cuda|nccl|env|lib|gpu|pids|timeout|mig|arch|feature|image|map"

# The texts of the driver's result codes, the codes and their names.
_PROBLEMS = (
    ("no_answer", r"no answer|timed? ?out|timeout|not ready|\b600\b|NOT_READY|Interrupted system"),
    ("memory", r"out of memory|\bcode 2\b|OUT_OF_MEMORY|-> 2\b"),
    ("system", r"OS call failed|\b304\b|OPERATING_SYSTEM"),
    ("state", r"present state|\b401\b|ILLEGAL_STATE"),
    ("unsupported", r"operation not supported|not supported|\b801\b|NOT_SUPPORTED"),
    ("forbidden", r"not permitted|permission|\b800\b|NOT_PERMITTED"),
    ("uninitialised", r"initialization error|not initialized|\bcode 3\b|NOT_INITIALIZED"),
    ("context", r"invalid (?:device )?context|\b201\b|INVALID_CONTEXT"),
    ("value", r"invalid argument|invalid value|\bcode 1\b|INVALID_VALUE|-> 1\b"),
    ("died", r"SIGSEGV|[Ss]egmentation|signaled with|killed by signal"),
)
_HOOKS = {"PAUSE": "lock", "CHECKPOINT": "checkpoint", "RESTORE": "restore", "UNLOCK": "unlock"}
_INNER_PID = re.compile(r"process ID (\d+)|\bpid[ :=]*(\d+)", re.IGNORECASE)
_LOCKED_OK = re.compile(r"\block\b.*?pid[ :=]*(\d+).*(?:->|:)\s*(?:ok|locked)\b")
_TARGET_DIED = re.compile(r"SIGSEGV|segfault|Segmentation fault|core dumped")
_PAUSING = re.compile(r"pausing devices on pid (\d+)")


def _step(sight: Sight) -> Finding:
    problem = sight.groups.get("problem") or ""
    hook = sight.groups.get("hook") or ""
    action = (sight.groups.get("action") or _HOOKS.get(hook, "lock")).lower()
    action = "toggle" if action == "toggl" else action
    seen = sight.having(action=action, pid=_pid(sight), problem=problem.strip() or "no reason told")
    kind = next((name for name, pattern in _PROBLEMS if re.search(pattern, problem)), "")
    if kind == "system" and _TARGET_DIED.search(_evidence(sight)):
        kind = "died"
    if not kind and hook == "PAUSE":
        kind = "no_answer"
    return _explanation(action, kind)(seen)


def _pid(sight: Sight) -> Optional[str]:
    inner = _INNER_PID.search(sight.line.text)
    if inner:
        return inner[1] or inner[2]
    before = [_PAUSING.search(line.text) for line in sight.case.lines]
    named = [match[1] for match in before if match]
    return named[-1] if named else sight.groups.get("pid")


def _explanation(action: str, kind: str) -> Explain:
    if kind == "no_answer":
        return lock_without_answer
    if kind == "memory":
        return gpu_memory_full if action in ("restore", "toggle") else memory_at_checkpoint
    if kind == "value" and action != "restore":
        kind = "uninitialised"
    return BY_PROBLEM.get(kind, OTHER)


def lock_without_answer(sight: Sight) -> Finding:
    """Tell a lock that did not come to an end: ranks that block each other, or only a long wait."""
    sight = sight.having(pid=_pid(sight))
    matches = [_LOCKED_OK.search(line.text) for line in sight.case.lines]
    locked = [match[1] for match in matches if match]
    held = [pid for pid in locked if pid != sight.groups.get("pid")]
    nccl = "nccl" in _evidence(sight).lower()
    return _nccl(sight, held) if nccl else _lock_timeout(sight, held)


def _evidence(sight: Sight) -> str:
    return show(sight.context) + " ".join(line.text for line in sight.case.lines)


def _undo(held: list[str]) -> str:
    which = ", ".join(reversed(held)) or "every process that is locked"
    return (
        f"Unlock at once, in reverse order, what is locked ({which}): cuda-checkpoint --action "
        "unlock --pid PID, and prove with --get-state (with a time limit) that all are running "
        "again."
    )


def _nccl(sight: Sight, held: list[str]) -> Finding:
    blocker = f"the locked rank {', '.join(held)} blocks" if held else "a locked rank blocks"
    return Finding(
        "nccl_peer_blocks_lock",
        "The ranks of this job share GPU memory through NCCL: "
        + blocker
        + fill(
            " its peer, {task}, which did not answer ({problem}). In this setting the job "
            "cannot be checkpointed from below.",
            sight,
        ),
        f"{_undo(held)} For the next start set NCCL_P2P_DISABLE=1, NCCL_NVLS_ENABLE=0 and "
        "NCCL_SHM_DISABLE=1 (slower), or use checkpoints of the application; then: gpuguard "
        f"checkpoint {job(sight)}.",
    )


def _lock_timeout(sight: Sight, held: list[str]) -> Finding:
    limit = first(sight.context, "timeout", "timeout_s", "timeout_ms")
    within = f" within the limit ({show(limit)})" if limit else " within the time limit"
    return Finding(
        "cuda_lock_timeout",
        fill("The CUDA lock on {task} did not come to an end", sight)
        + within
        + ": a long kernel or a collective was running, or ranks that share memory (NCCL) wait "
        "for each other.",
        f"{_undo(held)} Then with a longer --timeout or at a quieter moment: gpuguard checkpoint "
        f"{job(sight)}. For NCCL jobs: NCCL_P2P_DISABLE=1 at the next start.",
    )


RULES = (
    rule(r"(?P<hook>PAUSE|CHECKPOINT)_DEVICES failed with(?P<problem>.*)", _step, _CONTEXT),
    rule(r"RESUME_DEVICES (?P<hook>\w+) failed with(?P<problem>.*)", _step, _CONTEXT),
    rule(r"(?P<hook>)(?P<problem>Unable to read output of cuda-checkpoint: .*)", _step, _CONTEXT),
    rule(
        r"(?i)(?:could not|failed to|error) (?P<action>lock|checkpoint|restore|unlock|toggl)\w* "
        r"(?:CUDA )?(?:on |of |in )?(?:process(?: ID)?|pid) (?P<pid>\d+)\s*:\s*"
        r"\"?(?P<problem>[^\"]+)",
        _step,
        _CONTEXT,
    ),
    rule(
        r"cuda-checkpoint\b(?=.*--(?:action )?(?P<action>lock|checkpoint|restore|unlock|toggle|"
        r"get-state)\b)(?=.*--pid (?P<pid>\d+)).*-> (?!ok\b|running\b|locked\b|checkpointed\b)"
        r"(?P<problem>.+)",
        _step,
        _CONTEXT,
    ),
    rule(
        r"cuCheckpointProcess(?P<action>Lock|Checkpoint|Restore|Unlock)\b(?:.*?\bpid\D*"
        r"(?P<pid>\d+))?.*?-> (?!0\b)(?P<problem>.+)",
        _step,
        _CONTEXT,
    ),
)
