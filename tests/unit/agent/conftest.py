"""A node's state folder of each test's own."""

from tests.node_folder import paths, store

__all__ = ["paths", "store"]
