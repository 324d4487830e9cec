"""Files that ship beside the code: inventories to start from, and the schema for editors."""

from importlib.resources import files


def starter() -> str:
    """Return the text of a first inventory, explained line by line."""
    return files(__name__).joinpath("starter.yaml").read_text(encoding="utf-8")


def shipped_schema() -> str:
    """Return the text of the JSON Schema of inventory files."""
    return files("gpuguard.inventory").joinpath("schema.json").read_text(encoding="utf-8")
