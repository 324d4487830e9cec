"""A small agent that speaks docs/protocol.md and misbehaves when asked to.

It is sent to the node in place of gpuguard/agent/main.py, so it uses the standard library alone.
"""

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

LOCK = threading.Lock()
STOPPED: set[int] = set()


def main(words: list[str]) -> int:
    send(
        {
            "hello": {
                "protocol": 1,
                "version": "0.1.0",
                "agent": Path(__file__).resolve().parents[2].name,
                "host": "stand-in",
                "boot_id": "b",
                "python": "3",
                "pid": os.getpid(),
                "uid": os.getuid(),
                "recovered": [],
            }
        }
    )
    for line in sys.stdin.buffer:
        request = json.loads(line)
        threading.Thread(target=work, args=(request,), daemon=True).start()
    return 0


def send(message: dict[str, Any]) -> None:
    with LOCK:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


def work(request: dict[str, Any]) -> None:
    method, params, number = request["method"], request["params"], request["id"]
    if method == "cancel":
        STOPPED.add(params["id"])
        return
    if method == "ping":
        send({"id": number, "result": {"at": time.time(), "monotonic": time.monotonic()}})
        return
    result = globals()["do_" + method](number, **params)
    if isinstance(result, dict) and "error" in result:
        send({"id": number, **result})
    else:
        send({"id": number, "result": result})


def do_echo(number: int, /, **params: object) -> object:
    return params


def do_big(number: int, size: int) -> object:
    return "x" * size


def do_count(number: int, n: int, pause: float = 0.0) -> object:
    for turn in range(n):
        if number in STOPPED:
            break
        send({"id": number, "event": {"turn": turn}})
        time.sleep(pause)
    return {"stopped": number in STOPPED}


def do_sleep(number: int, seconds: float) -> object:
    time.sleep(seconds)
    return None


def do_fail(number: int) -> object:
    return {"error": {"kind": "refused", "message": "no", "hint": "ask", "details": {"a": 1}}}


def do_die(number: int) -> object:
    sys.stderr.write("Traceback\nOSError: it broke\n")
    sys.stderr.flush()
    os._exit(7)


def do_garbage(number: int) -> object:
    with LOCK:
        sys.stdout.write("this is no JSON\n")
        sys.stdout.flush()
    return None


def do_oversize(number: int) -> object:
    return "x" * (9 * 1024 * 1024)


def do_chatter(number: int) -> object:
    sys.stderr.write("noise\n" * 1_000_000)
    sys.stderr.flush()
    return "done"


def do_stopped(number: int) -> object:
    return sorted(STOPPED)
