"""Runs on a practice host: what preflight and what the real CRIU say of the same process.

Reads {"programs": {name: code}, "agent": folder} from standard input, writes one line of JSON a
program. The agent's own folder is on the path, so that the code under test is the one sent there.
"""

import contextlib
import json
import os
import socket
import subprocess
import sys
import time

OPTIONS = ["--no-default-config", "--libdir", "/tmp/empty", "--manage-cgroups=ignore"]
OPTIONS += ["--tcp-close", "--file-locks", "--ghost-limit", "16777216", "--leave-running", "-v4"]


def main() -> None:
    """Try every program, one after the other."""
    wish = json.load(sys.stdin)
    sys.path.insert(0, wish["agent"])
    os.makedirs("/tmp/empty", exist_ok=True)  # noqa: PTH103
    log, server = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM), socket.socket(socket.AF_UNIX)
    log.bind("/srv/datagram")
    server.bind("/srv/stream")
    server.listen()
    server.setblocking(False)
    for name, code in wish["programs"].items():
        sys.stdout.write(json.dumps({"name": name, **try_program(name, code, server)}) + "\n")


def try_program(name: str, code: str, server: socket.socket) -> dict[str, object]:
    """Start the program, look at it, and let CRIU save it."""
    folder = f"/srv/odd-{name}"
    os.makedirs(folder)  # noqa: PTH103
    said = f"{folder}/said"
    with open(said, "wb") as output:  # noqa: PTH123
        process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=folder,
            start_new_session=True,
        )
    try:
        for _ in range(200):
            with open(said) as text:  # noqa: PTH123
                words = text.read()
            if words.endswith("\n"):
                break
            time.sleep(0.02)
        if "ready" not in words:
            return {"skipped": words}
        with contextlib.ExitStack() as links:
            with contextlib.suppress(BlockingIOError):
                links.enter_context(server.accept()[0])
            return {"found": survey(process.pid), **criu(process.pid, f"{folder}/images")}
    finally:
        end(process)


def survey(pid: int) -> list[list[str]]:
    """Return level and code of everything preflight finds."""
    from gpuguard.agent import processes
    from gpuguard.agent.survey.survey import survey_job
    from gpuguard.model.jobs import Job, JobOrigin, JobSpec, JobState

    spec, root = JobSpec("odd", uid="u"), processes.ref(pid)
    job = Job(spec, JobOrigin.ADOPTED, JobState.RUNNING, 1, "", root, namespace_pid=pid)
    return [[item.level.value, item.code] for item in survey_job(job).findings]


def criu(pid: int, images: str) -> dict[str, object]:
    """Return CRIU's exit code and its errors."""
    os.makedirs(images)  # noqa: PTH103
    command = ["criu", "dump", "-t", str(pid), "-D", images, "-o", "dump.log", *OPTIONS]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    with open(f"{images}/dump.log", errors="replace") as log:  # noqa: PTH123
        errors = [line.strip() for line in log if "Error (" in line]
    return {"criu": done.returncode, "errors": errors[:3]}


def end(process: "subprocess.Popen[bytes]") -> None:
    """End the program and what it started."""
    from gpuguard.agent import processes

    for entry in reversed(processes.tree(process.pid)):
        os.kill(entry.pid, 9)
    process.wait()


main()
