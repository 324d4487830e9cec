"""Files of cases: which option names one, where the project's own copy lies, how it is read.

A further kind of case needs one more row in KINDS and a test that takes the fixture of that row.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

DATA = Path(__file__).resolve().parents[1] / "data"


@dataclass(frozen=True)
class Kind:
    """One kind of case file: its option, its fixture, and what its document must look like."""

    option: str  # on pytest's command line, followed by a file
    fixture: str  # each case of the file is one value of it
    copy: str  # in tests/data, used without the option
    key: str  # the list of cases inside the document
    mark: tuple[str, str]  # an entry that tells the document's kind

    @property
    def dest(self) -> str:
        return self.option.lstrip("-").replace("-", "_")


KINDS = (
    Kind(
        option="--checkpoint-failures",
        fixture="checkpoint_failure",
        copy="checkpoint_failures.yaml",
        key="items",
        mark=("schema", "gpuguard/checkpoint_failures/1"),
    ),
    Kind(
        option="--kernel-lines",
        fixture="kernel_lines",
        copy="kernel_lines.yaml",
        key="entries",
        mark=("kind", "kernel_lines"),
    ),
)


def chosen_file(kind: Kind, config: pytest.Config) -> Path:
    """The file named on the command line, else the project's own copy."""
    named = config.getoption(kind.dest, default=None)
    return Path(named) if named else DATA / kind.copy


def load(kind: Kind, path: Path) -> dict[str, Any]:
    """The document at `path`; UsageError if it is no document of this kind."""
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise pytest.UsageError(f"{kind.option} {path}: {error}") from error
    name, value = kind.mark
    if not isinstance(document, dict) or document.get(name) != value:
        raise pytest.UsageError(f"{kind.option} {path}: {name} is not {value!r}")
    if not document.get(kind.key):
        raise pytest.UsageError(f"{kind.option} {path}: no cases under {kind.key!r}")
    return document
