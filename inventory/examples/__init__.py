"""Inventories to start from."""

from importlib.resources import files


def starter() -> str:
    """Return the text of a first inventory, explained line by line."""
    return files(__name__).joinpath("starter.yaml").read_text(encoding="utf-8")
