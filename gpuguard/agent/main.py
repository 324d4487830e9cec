"""Entry of the agent on a node: `serve`, `boot`, or the detached processes beside a procedure.

Run as `python3 -I <folder>/gpuguard/agent/main.py serve`; also `python3 -m gpuguard.agent.main`.
"""

import os
import sys


def main(words: list[str]) -> int:
    """Do what `words` say; return the exit code."""
    os.umask(0o077)
    if words == ["serve"]:
        from gpuguard.agent.server import serve

        return serve()
    if words == ["boot"]:
        from gpuguard.agent.paths import NodePaths
        from gpuguard.agent.procedures.recovery import recover_abandoned

        recover_abandoned(NodePaths())
        return 0
    if words and words[0] in ("watchdog", "recover") and len(words) in (3, 4):
        return _detached(words)
    sys.stderr.write(
        "usage: main.py serve | boot | watchdog ID LOG [--fork] | recover ID LOG [--fork]\n"
    )
    return 2


def _detached(words: list[str]) -> int:
    reader, writer = os.pipe()
    # The caller waits for the first process alone; the second has no parent of ours left.
    if words[-1] == "--fork" and os.fork():
        os.close(writer)
        return 0 if os.read(reader, 1) else 1
    log = os.open(words[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    from gpuguard.agent.paths import NodePaths
    from gpuguard.agent.procedures import cgroup, watchdog

    def ready() -> None:
        # A systemd unit has nobody at the other end: the caller looks at the folder instead.
        if words[-1] == "--fork":
            os.write(writer, b"1")
        os.close(writer)

    if words[-1] == "--fork":
        cgroup.leave_login()
    watchdog.shield()
    work = watchdog.watch if words[0] == "watchdog" else watchdog.recover
    return work(NodePaths(), words[1], ready)


if __name__ == "__main__":
    # Our folder comes first and the one of this file must not: its names are not the library's.
    sys.path[:] = [entry for entry in sys.path if entry != os.path.dirname(__file__)]  # noqa: PTH120
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # noqa: PTH100, PTH120
    sys.path.insert(0, root)
    sys.exit(main(sys.argv[1:]))
