"""Lasting preferences: what an option has when the command line does not say it.

Of two sources the first wins: GPUGUARD_* variables, the user's file (or --config), the
system's file, the built-in value. Options on the command line stand above them all.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuguard.model.errors import UsageError
from gpuguard.model.inventory import nearest

SYSTEM_FILE = Path("/etc/gpuguard/config.yaml")
FILE_VARIABLE = "GPUGUARD_CONFIG"
BUILT_IN = "built-in"


@dataclass(frozen=True)
class Preference:
    """One preference: its built-in value, and how text becomes a value (ValueError if not)."""

    name: str
    default: Any
    read: Callable[[str, Path], Any]  # the folder is what relative paths are taken from

    @property
    def variable(self) -> str:
        """Return the environment variable that sets it."""
        return f"GPUGUARD_{self.name.upper()}"


@dataclass(frozen=True)
class Value:
    """What a preference is set to, and by what: a file and line, a variable, or `built-in`."""

    value: Any
    origin: str


def _choice(*words: str) -> Callable[[str, Path], str]:
    def read(text: str, folder: Path) -> str:
        del folder
        if text in words:
            return text
        close = nearest(text, words)
        advice = f" (did you mean {close}?)" if close else ""
        raise ValueError(f"expected {', '.join(words)}, found {text!r}{advice}")

    return read


def _switch(text: str, folder: Path) -> bool:
    from gpuguard.inventory.scalars import switch

    del folder
    return {"1": True, "0": False}[text] if text in ("0", "1") else switch(text)


def _count(text: str, folder: Path) -> int:
    from gpuguard.inventory.scalars import integer

    del folder
    number = integer(text)
    if not 1 <= number <= 1024:
        raise ValueError(f"{number} is not between 1 and 1024")
    return number


def _file(text: str, folder: Path) -> Path:
    return folder / Path(text).expanduser()


PREFERENCES = (
    Preference("inventory", None, _file),
    Preference("output", "table", _choice("table", "json", "jsonl")),
    Preference("color", "auto", _choice("auto", "always", "never")),
    Preference("progress", "auto", _choice("auto", "always", "never")),
    Preference("quiet", False, _switch),
    Preference("no_input", False, _switch),
    Preference("fanout", 32, _count),
)
_KNOWN = {preference.name: preference for preference in PREFERENCES}


def read_preferences(
    environ: Mapping[str, str], user_folder: Path, named: Path | None = None
) -> dict[str, Value]:
    """Return every preference with its origin.

    `user_folder` holds the user's config.yaml; `named` is the file of --config, which must
    exist, as must the one in $GPUGUARD_CONFIG.

    Raises:
        UsageError: a file or variable is wrong; every fault of a file is named at once.
    """
    values = {it.name: Value(it.default, BUILT_IN) for it in PREFERENCES}
    for file in files_in_use(environ, user_folder, named):
        values.update(_read_file(file))
    for preference in PREFERENCES:
        text = environ.get(preference.variable)
        if text:
            values[preference.name] = _read_variable(preference, text)
    return values


def files_in_use(
    environ: Mapping[str, str], user_folder: Path, named: Path | None = None
) -> list[Path]:
    """Return the files that are read, the weakest first; a usual file that is missing is none."""
    usual = [file for file in usual_files(user_folder) if file.exists() or file.is_symlink()]
    chosen = named or (Path(environ[FILE_VARIABLE]) if environ.get(FILE_VARIABLE) else None)
    if chosen is None:
        return usual
    return [*(file for file in usual if file == SYSTEM_FILE), chosen]


def usual_files(user_folder: Path) -> list[Path]:
    """Return the places of the system's and the user's file, the weakest first."""
    return list(dict.fromkeys([SYSTEM_FILE, user_folder / "config.yaml"]))


def _read_variable(preference: Preference, text: str) -> Value:
    try:
        return Value(preference.read(text, Path.cwd()), f"${preference.variable}")
    except ValueError as error:
        raise UsageError(f"${preference.variable}: {error}", "gpuguard config show") from error


def _read_file(path: Path) -> dict[str, Value]:
    # YAML costs 12 ms to import: only those who have a file pay for it.
    from gpuguard.inventory.problems import refuse
    from gpuguard.inventory.scalars import kind_of
    from gpuguard.inventory.text import read_text
    from gpuguard.inventory.tree import parse

    tree = parse(read_text(path), str(path))
    values: dict[str, Value] = {}
    if not isinstance(tree.data, dict | None):
        tree.problem((), f"expected a mapping of preferences, found {kind_of(tree.data)}")
    else:
        for name, text in (tree.data or {}).items():
            _read_key(tree, path, name, text, values)
    if tree.problems:
        refuse(str(path), tree.problems)
    return values


def _read_key(tree: Any, path: Path, name: str, text: Any, values: dict[str, Value]) -> None:
    from gpuguard.inventory.scalars import kind_of

    if name not in _KNOWN:
        close = nearest(name, _KNOWN)
        advice = f" (did you mean {close}?)" if close else f"; known: {', '.join(_KNOWN)}"
        tree.problem((name,), f"unknown key{advice}", at_key=True)
        return
    if text is None:
        return
    try:
        if not isinstance(text, str):
            raise ValueError(f"expected one value, found {kind_of(text)}")
        value = _KNOWN[name].read(text, path.absolute().parent)
    except ValueError as error:
        tree.problem((name,), str(error))
        return
    values[name] = Value(value, f"{path}:{tree.keys[(name,)][0]}")
