"""Find the inventory file: option, environment, the user's folder, the system's folder."""

from collections.abc import Mapping
from pathlib import Path

from gpuguard.model.errors import UsageError

VARIABLE = "GPUGUARD_INVENTORY"
SYSTEM = Path("/etc/gpuguard/inventory.yaml")


def find_inventory(option: Path | str | None, environ: Mapping[str, str]) -> Path:
    """Return the inventory to use: `option`, else $GPUGUARD_INVENTORY, else a usual place.

    Raises:
        UsageError: none is named and none of the usual places holds one.
    """
    named = option or environ.get(VARIABLE)
    if named:
        return Path(named).expanduser()
    places = usual_places(environ)
    for place in places:
        if _is_there(place):
            return place
    looked = ", ".join(str(place) for place in places)
    raise UsageError(
        f"no inventory: --inventory and ${VARIABLE} are not given, and none of {looked} exists",
        "make one: gpuguard inventory init",
    )


def usual_places(environ: Mapping[str, str]) -> list[Path]:
    """Return the places looked at when no inventory is named, the first one first."""
    user = user_place(environ)
    return [SYSTEM] if user is None else [user, SYSTEM]


def user_place(environ: Mapping[str, str]) -> Path | None:
    """Return where the user's own inventory belongs; None without a home."""
    base = environ.get("XDG_CONFIG_HOME", "")
    # The XDG rules say that a relative path is to be ignored.
    if base.startswith("/"):
        return Path(base) / "gpuguard" / "inventory.yaml"
    home = environ.get("HOME", "")
    return Path(home) / ".config" / "gpuguard" / "inventory.yaml" if home else None


def _is_there(place: Path) -> bool:
    # A link that leads nowhere, or a folder that may not be searched, is reported by the
    # reader: taking the next place instead would drive another fleet than the one meant.
    try:
        return place.is_symlink() or place.exists()
    except PermissionError:
        return True
