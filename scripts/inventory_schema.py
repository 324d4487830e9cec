"""Write the JSON Schema of inventory files, or with --check say whether it is current."""

import json
import sys
from pathlib import Path

from gpuguard.inventory.schema import json_schema

_FILE = Path(__file__).parent.parent / "inventory" / "schema.json"


def main() -> int:
    """Write the schema; with --check return 1 when the file differs from it."""
    text = json.dumps(json_schema(), indent=2) + "\n"
    if sys.argv[1:] != ["--check"]:
        _FILE.write_text(text, encoding="utf-8")
        return 0
    if _FILE.read_text(encoding="utf-8") == text:
        return 0
    print("inventory/schema.json is not current: run python scripts/inventory_schema.py")
    return 1


if __name__ == "__main__":
    sys.exit(main())
