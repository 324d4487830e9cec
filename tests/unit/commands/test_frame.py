"""The frame of the command line: help, mistakes, errors as text and as JSON, exit codes."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpuguard.commands import main
from gpuguard.commands.options import Settings, hoist, use_settings
from gpuguard.commands.table import COMMANDS

HEAVY = ("rich", "textual", "paramiko", "pydantic", "pynvml", "yaml")
INVENTORY = """
version: 1
stores: {shared: {path: /srv/gpuguard}}
policies: {default: {store: shared}}
hosts:
  closed: {address: 127.0.0.1, port: 1}
"""


def run(*words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("GPUGUARD_", "XDG_"))}
    clean.pop("NO_COLOR", None)
    return subprocess.run(
        [sys.executable, "-m", "gpuguard", *words],
        env={**clean, **environ},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


@pytest.fixture
def fleet(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "inventory.yaml").write_text(INVENTORY)
    return {
        "GPUGUARD_INVENTORY": str(tmp_path / "inventory.yaml"),
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
    }


Ask = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Ask]:
    """Run a command line in this process, which spares Python's start and every import."""
    for name in [*os.environ]:
        if name.startswith(("GPUGUARD_", "XDG_", "NO_COLOR")):
            monkeypatch.delenv(name)

    def ask(*words: str, **environ: str) -> subprocess.CompletedProcess[str]:
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        with pytest.raises(SystemExit) as ended:
            main.run([*words])
        assert isinstance(ended.value.code, int)
        said = capsys.readouterr()
        return subprocess.CompletedProcess(words, ended.value.code, said.out, said.err)

    before = signal.getsignal(signal.SIGTERM)
    yield ask
    signal.signal(signal.SIGTERM, before)
    use_settings(Settings())


@pytest.mark.parametrize("words", [["--help"], ["-h"], ["--version"], ["jobs", "run", "--help"]])
def test_help_and_version_import_nothing_heavy(words: list[str]) -> None:
    code = (
        "import sys\nfrom gpuguard.commands.main import run\n"
        f"try:\n    run({words!r})\nexcept SystemExit as end:\n    assert end.code == 0, end.code\n"
        f"bad = [name for name in {HEAVY!r} if name in sys.modules]\nassert not bad, bad\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_help_names_every_command_with_its_line() -> None:
    done = run("--help")
    for row in COMMANDS:
        assert f"{row.name} " in done.stdout
        assert row.help.split()[0] in done.stdout
    assert "Examples:" in done.stdout


@pytest.mark.parametrize("row", COMMANDS, ids=lambda row: row.name)
def test_every_command_has_help_with_examples(ask: Ask, row: object) -> None:
    name = getattr(row, "name", "")
    done = ask(name, "--help")
    assert done.returncode == 0, done.stderr
    assert "Examples:" in done.stdout
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize("row", COMMANDS, ids=lambda row: row.name)
def test_no_line_of_a_groups_help_is_cut(ask: Ask, row: object) -> None:
    lines = ask(getattr(row, "name", ""), "--help", COLUMNS="80").stdout.splitlines()
    assert [line for line in lines[1:] if line.endswith("...")] == []


def test_version_is_one_line() -> None:
    assert run("--version").stdout == "gpuguard 0.1.0\n"
    assert run("--debug", "--version").stdout == "gpuguard 0.1.0\n"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["chekpoint"], "did you mean: gpuguard checkpoint"),
        (["ps"], "did you mean: gpuguard jobs list?"),
        (["status", "--all"], "did you mean: gpuguard jobs list?"),
        (["checkpoint"], "Missing argument"),
        (["--colour", "never"], "No such option"),
        (["jobs", "lst"], "lst"),
        (["jobs", "list", "-o", "yaml"], "yaml"),
        (["completion", "tcsh"], "tcsh"),
    ],
)
def test_a_wrong_line_is_2_with_a_hint(ask: Ask, words: list[str], text: str) -> None:
    done = ask(*words)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("error: ")
    assert "hint: " in done.stderr
    assert text in done.stderr


@pytest.mark.parametrize(
    ("words", "choices"),
    [
        (["inventory", "import"], "Choose from: ssh-config, ansible, hosts\n"),
        (["completion"], "Choose from: bash, zsh, fish\n"),
    ],
)
def test_a_usage_error_is_one_line(ask: Ask, words: list[str], choices: str) -> None:
    first, second = ask(*words).stderr.splitlines(keepends=True)
    assert first.startswith("error: Missing ")
    assert first.endswith(choices)
    assert second.startswith("hint: ")


def test_no_arguments_show_the_help_and_are_2(ask: Ask) -> None:
    done = ask()
    assert done.returncode == 2
    assert done.stderr.startswith("Usage: gpuguard")


def test_an_error_in_json_is_an_object_alone_on_stdout(ask: Ask) -> None:
    done = ask("jobs", "list", "-o", "json", "--debug", GPUGUARD_INVENTORY="/nonexistent.yaml")
    told = json.loads(done.stdout)
    assert told["schema"] == "gpuguard.error/1"
    assert told["code"] == done.returncode == 2
    assert told["error"]["kind"] == "usage"
    assert "Traceback" in done.stderr


def test_a_traceback_is_shown_with_debug_alone(ask: Ask) -> None:
    done = ask("jobs", "list", GPUGUARD_INVENTORY="/nonexistent.yaml")
    assert "Traceback" not in done.stderr
    assert "nonexistent.yaml" in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["jobs", "list"],
        ["jobs", "show", "llm"],
        ["checkpoint", "llm"],
        ["restore", "llm"],
        ["migrate", "llm"],
        ["jobs", "run", "llm", "--host", "closed", "--", "true"],
    ],
)
def test_a_fleet_that_does_not_answer_is_4(
    ask: Ask, fleet: dict[str, str], words: list[str]
) -> None:
    done = ask(*words, **fleet)
    assert done.returncode == 4, done.stderr
    assert "closed" in done.stderr


def test_a_listing_stays_json_when_hosts_fail(ask: Ask, fleet: dict[str, str]) -> None:
    done = ask("jobs", "list", "-o", "json", "--debug", **fleet)
    listed = json.loads(done.stdout)
    assert listed["schema"] == "gpuguard.jobs/1"
    assert listed["items"] == []
    assert listed["errors"][0]["host"] == "closed"


def test_unknown_hosts_are_2_with_the_nearest(ask: Ask, fleet: dict[str, str]) -> None:
    done = ask("jobs", "run", "llm", "--host", "close", "--", "true", **fleet)
    assert done.returncode == 2
    assert "did you mean closed" in done.stderr


@pytest.mark.parametrize("wish", [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {}])
def test_a_pipe_gets_no_escape_bytes(ask: Ask, fleet: dict[str, str], wish: dict[str, str]) -> None:
    done = ask("jobs", "list", **fleet, **wish)
    assert "\x1b" not in done.stdout + done.stderr


def test_color_can_be_forced_and_forbidden(ask: Ask, fleet: dict[str, str]) -> None:
    assert "\x1b[31merror" in ask("jobs", "list", "--color", "always", **fleet).stderr
    forbidden = ask("jobs", "list", "--color=always", "--no-color", **fleet)
    assert "\x1b" not in forbidden.stderr


def test_global_options_may_stand_anywhere_before_a_bare_dash() -> None:
    line = ["jobs", "run", "x", "--debug", "-i", "f", "--color=never", "--", "cmd", "--debug"]
    assert hoist(line) == [
        *("--debug", "-i", "f", "--color=never"),
        *("jobs", "run", "x", "--", "cmd", "--debug"),
    ]


def test_a_reader_that_goes_away_is_no_traceback() -> None:
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m gpuguard info | true; echo ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr
    assert done.stdout.strip() in ("0", "1")


@pytest.mark.parametrize(
    ("words", "buffered"),
    [
        (["info"], {}),
        (["info"], {"PYTHONUNBUFFERED": "1"}),
        (["--version"], {}),
        (["jobs", "list", "-o", "json"], {}),
        (["jobs", "list", "-o", "json"], {"PYTHONUNBUFFERED": "1"}),
    ],
)
def test_a_full_disk_is_an_error_not_a_traceback(
    fleet: dict[str, str], words: list[str], buffered: dict[str, str]
) -> None:
    clean = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "gpuguard", *words],
            env={**clean, **fleet, **buffered},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr.splitlines() == ["error: No space left on device"]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_have_codes(tmp_path: Path, number: signal.Signals, code: int) -> None:
    fifo = tmp_path / "inventory.yaml"
    os.mkfifo(fifo)
    child = subprocess.Popen(
        [sys.executable, "-m", "gpuguard", "-i", str(fifo), "restore", "llm"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    writer = opened_by_a_reader(fifo)
    child.send_signal(number)  # it waits for words that do not come
    _, said = child.communicate(timeout=20)
    os.close(writer)
    assert child.returncode == code, said
    assert "Traceback" not in said


def opened_by_a_reader(fifo: Path) -> int:
    """Return the writing end of `fifo` once somebody has opened the other one."""
    deadline = time.monotonic() + 30
    while True:
        try:
            return os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            assert error.errno == errno.ENXIO and time.monotonic() < deadline
            time.sleep(0.02)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(shell: str) -> None:
    done = run("completion", shell)
    assert done.returncode == 0
    assert "_GPUGUARD_COMPLETE" in done.stdout
    if shell == "bash":
        subprocess.run(["bash", "-n"], input=done.stdout, text=True, check=True)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("gpuguard chec", ["checkpoint", "checkpoints"]),
        ("gpuguard jobs l", ["list", "logs"]),
        ("gpuguard jobs list --ou", ["--output"]),
    ],
)
def test_completion_answers(line: str, words: list[str]) -> None:
    done = run(_GPUGUARD_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=str(line.count(" ")))
    assert done.stdout.split() == words
