"""A job that proves its own continuity. Standard library, Python 3.9.

Every tick it writes one line `step N CHECKSUM`. The checksum chains over the memory it holds and
over what its child, orphan, thread, shared memory segment and deleted file keep, none of which is
written anywhere else: only a run that was never broken can go on with it.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from typing import TextIO

from gpuguard.sandbox.workloads.chain import BLOCK, advance, first_block, first_state, places_of
from gpuguard.sandbox.workloads.connection import Connection, listen
from gpuguard.sandbox.workloads.parts import MAKERS

_BLOCKS_A_MIB = 1024 * 1024 // BLOCK


def parse(argv: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="steps", description=str(__doc__).partition("\n")[0])
    add = parser.add_argument
    add("--tick", type=float, default=0.1, help="seconds between steps (default 0.1)")
    add("--steps", type=int, default=0, help="end after this many steps; 0: go on for good")
    add("--exit-code", type=int, default=0, help="exit code after the last step")
    add("--size-mib", type=int, default=1, help="memory to hold (default 1)")
    add("--visit", type=int, default=16, help="blocks of 64 KiB a step reads (default 16)")
    add("--seed", default="", help="hexadecimal; the default is random")
    add("--cwd", default="", help="make this folder and work in it")
    add("--log", default="", help="append the steps here; the default is standard output")
    add("--plain-log", default="", help="write the steps here too, without append mode")
    for name in MAKERS:
        add(f"--{name}", action="store_true", help=f"let a {name} take part")
    add("--all", action="store_true", help="let all of these take part")
    add("--port", type=int, default=0, help="listen on this port and echo")
    add("--connect", default="", help="hold a connection to HOST:PORT, or to `self`")
    return parser.parse_args(argv)


def open_logs(options: argparse.Namespace) -> list[TextIO]:
    """Open what the steps are written to, a line at a time."""
    logs: list[TextIO] = []
    if options.plain_log:
        logs.append(open(options.plain_log, "w"))  # noqa: SIM115, PTH123  # open for good
    if options.log:
        logs.append(open(options.log, "a"))  # noqa: SIM115, PTH123  # open for good
    return logs if options.log else [*logs, sys.stdout]


def say(logs: list[TextIO], line: str) -> None:
    """Write one line to all logs at once."""
    for log in logs:
        log.write(line + "\n")
        log.flush()


def connection_of(options: argparse.Namespace) -> Connection | None:
    """Open the port and return the connection that the options ask for."""
    if options.port:
        listen(options.port)
    if not options.connect:
        return None
    host, _, port = options.connect.rpartition(":")
    if options.connect == "self":
        host, port = "127.0.0.1", str(options.port)
    return Connection((host, int(port)))


def run(options: argparse.Namespace) -> int:
    """Go from step to step; return the exit code."""
    if options.cwd:
        os.makedirs(options.cwd, exist_ok=True)  # noqa: PTH103
        os.chdir(options.cwd)
    logs = open_logs(options)
    seed = bytes.fromhex(options.seed) if options.seed else os.urandom(8)
    blocks = max(1, options.size_mib * _BLOCKS_A_MIB)
    names = [name for name in MAKERS if options.all or getattr(options, name)]
    # Before the memory is filled: the processes are to have their own state, not a copy of ours.
    parts = [MAKERS[name](seed, name) for name in names]
    connection = connection_of(options)
    memory = [first_block(seed, index) for index in range(blocks)]
    digest = first_state(seed, "main")
    say(logs, f"start seed={seed.hex()} blocks={blocks} visit={options.visit} {','.join(names)}")
    number = 0
    while not options.steps or number < options.steps:
        number += 1
        places = places_of(number, blocks, options.visit)
        digest = advance(digest, number, memory, places, parts)
        say(logs, f"step {number} {digest.hex()}")
        news = connection.use(f"step {number}") if connection else None
        if news:
            say(logs, f"note {news}")
        time.sleep(options.tick)
    return int(options.exit_code)


if __name__ == "__main__":
    sys.exit(run(parse(sys.argv[1:])))
