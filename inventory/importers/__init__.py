"""Inventories made from what people already have."""
