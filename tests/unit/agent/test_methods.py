"""The table of methods."""

from importlib import import_module

import pytest

from gpuguard.agent.methods import METHODS


@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_method_of_the_table_is_there(name: str) -> None:
    module, _, function = METHODS[name].partition(":")
    assert callable(getattr(import_module(module), function))
