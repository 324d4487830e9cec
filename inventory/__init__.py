"""YAML to Inventory: load, check, select, import."""
