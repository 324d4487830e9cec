"""Preflight against the real CRIU, and verdicts against hosts that really differ."""

import json
import shutil
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuguard.sandbox import fleet
from gpuguard.sandbox.fleet import Sandbox
from gpuguard.sandbox.requirements import refusal
from tests.integration.agent.odd_jobs import MORE, PRELUDE, PROGRAMS
from tests.system.kit import Operator

_NO = refusal()
pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.timeout(300),
    pytest.mark.skipif(_NO is not None, reason=str(_NO)),
]
_SCRIPT = Path(__file__).with_name("on_host.py")
_EXPECTED = {
    **{name: name for name in PROGRAMS},
    **{name: code for name, (_, code) in MORE.items()},
}
_NOT_SEEN = {"file-large"}  # the limit of the default policy is higher


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    made = fleet.up("preflight", hosts=3, old_criu=True, root=tmp_path_factory.mktemp("fleet"))
    yield made
    made.down()


@pytest.fixture
def operator(sandbox: Sandbox, tmp_path: Path) -> Operator:
    return Operator(sandbox, tmp_path)


def test_preflight_and_the_real_criu_think_alike(operator: Operator) -> None:
    sandbox = operator.sandbox
    operator.run("doctor", "node1")  # brings the agent there
    find = ["find", "/var/lib/gpuguard/agent", "-maxdepth", "1", "-mindepth", "1"]
    agent = sandbox.run("node1", find).stdout.split()[0]
    programs = {
        name: f"{PRELUDE}{textwrap.dedent(code)}\nprint('ready', flush=True)\ntime.sleep(60)\n"
        for name, (code, _) in {**PROGRAMS, **MORE}.items()
    }
    sandbox.run("node1", ["tee", "/tmp/on_host.py"], stdin=_SCRIPT.read_text())
    wish = json.dumps({"programs": programs, "agent": agent})
    said = sandbox.run("node1", ["python3", "-I", "/tmp/on_host.py"], stdin=wish).stdout
    answers = {item["name"]: item for item in map(json.loads, said.splitlines())}
    assert set(answers) == set(programs)
    tried = {name: item for name, item in answers.items() if "skipped" not in item}
    assert len(tried) >= len(programs) - 4, {n: i for n, i in answers.items() if n not in tried}
    for name, item in tried.items():
        refused = any(level == "error" for level, _ in item["found"])
        assert refused == (item["criu"] != 0), (name, item)
        if name not in _NOT_SEEN:
            assert [code for _, code in item["found"]] == [_EXPECTED[name]] * bool(_EXPECTED[name])


def start(operator: Operator, job: str, *options: str) -> None:
    work = ("--size-mib", "1", "--tick", "0.05", *options)
    operator.run("jobs", "run", job, "--host", "node1", "--", "steps", *work)


def verdicts(operator: Operator, *words: str) -> dict[str, dict[str, Any]]:
    """Return host → fits and the codes of what stands against it."""
    items = operator.run(*words, "-o", "json").json["verdicts"]
    return {item["host"]: {**item, "against": _against(item)} for item in items}


def _against(item: dict[str, Any]) -> dict[str, str]:
    return {f["code"]: f["text"] for f in item["findings"] if f["level"] not in ("ok", "info")}


def test_findings_of_a_job_before_anything_is_frozen(operator: Operator) -> None:
    code = "import os, socket, time; os.openpty(); s = socket.socket(40, 1); "
    code += "f = open('/srv/one', 'w'); os.link('/srv/one', '/srv/two'); os.unlink('/srv/one'); "
    operator.run(
        *("jobs", "run", "odd", "--host", "node1", "--"),
        *("python3", "-c", code + "time.sleep(600)"),
    )
    report = operator.run("doctor", "--job", "odd", "-o", "json", expect=1).json
    found = {item["code"] for item in report["findings"] if item["level"] == "error"}
    assert found == {"vsock", "link-remap"}
    told = operator.run("checkpoint", "odd", expect=5).err
    assert "AF_VSOCK" in told
    assert "/srv/one was removed" in told
    assert "AF_VSOCK" in operator.run("migrate", "odd", "--yes", expect=5).err
    dumps = ["find", "/var/lib/gpuguard", "-name", "dump.log"]
    assert operator.sandbox.run("node1", dumps).stdout == ""
    operator.run("jobs", "stop", "odd")


def test_hosts_are_judged_rule_by_rule_and_chosen_by_it(operator: Operator) -> None:
    sandbox = operator.sandbox
    start(operator, "judged", "--port", "7100")
    ahead = verdicts(operator, "doctor", "--job", "judged")
    assert set(ahead) == {"node2", "node3"}
    assert ahead["node2"]["fits"]
    assert set(ahead["node3"]["against"]) == {"criu-too-old"}
    operator.run("checkpoint", "judged", "--stop")
    show = ("checkpoints", "show", "judged", operator.newest("judged"))
    rules = {f["rule"] for f in verdicts(operator, *show)["node2"]["findings"]}
    assert {"store", "signature", "cpu", "programs", "files", "ports", "pids", "clock"} <= rules
    library = "/usr/lib/x86_64-linux-gnu/libc.so.6"
    listener = "import socket, time; s = socket.create_server(('0.0.0.0', 7100)); time.sleep(600)"
    sandbox.run("node2", ["sh", "-c", 'python3 -c "$0" >/dev/null 2>&1 &', listener])
    _change_build_id(sandbox.path("node2", library))
    try:
        seen = verdicts(operator, *show)
        assert seen["node1"]["fits"]
        assert set(seen["node2"]["against"]) == {"programs-differ", "port-taken"}
        assert f"{library} has build id" in seen["node2"]["against"]["programs-differ"]
        assert "python3 -c import socket" in seen["node2"]["against"]["port-taken"]
        assert set(verdicts(operator, *show, "--hosts", "node3")) == {"node3"}
        told = operator.run("restore", "judged", "--to", "node2", "--yes", expect=5).err
        assert "build id" in told
        assert "7100 is taken by process" in told
        brought = operator.run("restore", "judged", "--yes", "-o", "json").json
        assert brought["host"] == "node1"
    finally:
        operator.try_("jobs", "stop", "judged")


def test_missing_and_differing_files_are_one_list(operator: Operator) -> None:
    sandbox = operator.sandbox
    sandbox.run(
        "node1",
        ["sh", "-c", "cd /srv && head -c 70000000 /dev/zero >large-a && cp large-a large-b"],
    )
    code = "import time; a, b = (open(f'/srv/large-{n}', 'rb') for n in 'ab'); time.sleep(600)"
    operator.run("jobs", "run", "filed", "--host", "node1", "--", "python3", "-c", code)
    operator.run("checkpoint", "filed", "--stop")
    sandbox.run("node2", ["sh", "-c", "echo short >/srv/large-b"])
    seen = verdicts(operator, "checkpoints", "show", "filed", operator.newest("filed"))
    text = seen["node2"]["against"]["files-differ"]
    assert "/srv/large-a is missing" in text
    assert "/srv/large-b has 6 bytes, recorded 70000000" in text
    assert seen["node1"]["fits"]


def _change_build_id(library: Path) -> None:
    """Write a library of the same size and another build id over `library`."""
    from gpuguard.checkpoint.elf_notes import build_id

    data = library.read_bytes()
    known = build_id(lambda offset, size: data[offset : offset + size])
    assert known is not None
    changed = data.replace(bytes.fromhex(known), bytes(len(known) // 2), 1)
    fresh = library.with_name("fresh.so")
    fresh.write_bytes(changed)
    shutil.copymode(library, fresh)
    fresh.replace(library)
