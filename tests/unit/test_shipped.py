"""What is shipped beside the code says what the code does: man page, cron line, README, pins."""

import re
import shlex
from pathlib import Path

import pytest

from gpuguard import __version__
from gpuguard.commands.options import GLOBAL_FLAGS, GLOBAL_VALUES
from gpuguard.commands.table import COMMANDS
from gpuguard.model.errors import GpuguardError
from gpuguard.model.exit_codes import ExitCode

ROOT = Path(__file__).resolve().parents[2]
MAN = ROOT / "contrib/man/gpuguard.1"
NAMES = {row.name for row in COMMANDS}


def test_man_page_lists_every_command_with_its_line() -> None:
    lines = MAN.read_text().splitlines()
    found = {
        lines[index + 1].removeprefix(".B "): lines[index + 2]
        for index, line in enumerate(lines)
        if line == ".TP" and re.fullmatch(r"\.B [a-z]+", lines[index + 1])
    }
    assert found == {row.name: row.help for row in COMMANDS}


def test_man_page_has_the_version_and_every_exit_code() -> None:
    text = MAN.read_text()
    assert f'"gpuguard {__version__}"' in text
    assert {int(code) for code in re.findall(r"^(\d+)\t", text, re.MULTILINE)} == set(ExitCode)


def test_manual_of_exit_codes_lists_them_all() -> None:
    text = (ROOT / "docs/exit-codes.md").read_text()
    assert [int(code) for code in re.findall(r"^\| (\d+) ", text, re.MULTILINE)] == sorted(ExitCode)
    kinds: list[type[GpuguardError]] = [GpuguardError, *GpuguardError.__subclasses__()]
    shared = {kind.kind for kind in kinds if kind.__module__ == GpuguardError.__module__}
    assert set(re.findall(r"\| `(\w+)` \|", text)) == shared


def test_man_page_options_exist() -> None:
    named = set(re.findall(r"--[a-z-]+", MAN.read_text().replace("\\-", "-")))
    assert named - GLOBAL_FLAGS - GLOBAL_VALUES == {"--help", "--version"}


def gpuguard_lines(text: str) -> list[list[str]]:
    """The words after `gpuguard` of each line that calls it, comments taken off."""
    found = []
    for line in text.splitlines():
        match = re.search(r"(?:^|/|\s)gpuguard (.*)", line.split("  #")[0])
        if match and not line.startswith("#"):
            found.append(shlex.split(match[1].split(" -- ")[0].split(" > ")[0], comments=True))
    return found


@pytest.mark.parametrize("name", ["README.md", "contrib/cron/gpuguard"])
def test_shown_lines_name_real_commands(name: str) -> None:
    text = (ROOT / name).read_text()
    blocks = re.findall(r"```\w*\n(.*?)```", text, re.DOTALL) if name.endswith(".md") else [text]
    shown = [words for block in blocks for words in gpuguard_lines(block)]
    assert shown
    for words in shown:
        command = next(word for word in words if not word.startswith("-"))
        assert command in NAMES, f"{name} shows `gpuguard {' '.join(words)}`"


def test_readme_is_short_and_its_links_lead_somewhere() -> None:
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) < 150
    links = [link for link in re.findall(r"\]\(([^)]+)\)", text) if "://" not in link]
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_pins_are_names_and_versions_alone() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    assert pins
    assert [line for line in pins if not re.fullmatch(r"[\w.-]+==[\w.+!]+", line)] == []
