"""A node's cordons: one an owner, read by everyone, never lost to a damaged file."""

import dataclasses

import pytest

from gpuguard.agent.host.cordons import lift_cordon, read_cordons, require_no_cordon, set_cordon
from gpuguard.agent.paths import NodePaths
from gpuguard.model.cordons import UNKNOWN, Cordon
from gpuguard.model.errors import RefusedError

ANN = Cordon("a1", "ann@hub", "fan 2 is loud", "2026-01-31T12:00:00Z")
BOB = Cordon("b1", "bob@hub", "", "2026-01-31T12:01:00Z")


def test_each_owner_has_one_and_lifts_his_own(paths: NodePaths) -> None:
    assert read_cordons(paths) == []
    set_cordon(paths, ANN)
    set_cordon(paths, BOB)
    again = dataclasses.replace(ANN, id="a2", reason="louder")
    assert set_cordon(paths, again) == [BOB, again]
    assert lift_cordon(paths, "ann@hub", "a1") == [BOB, again]
    assert lift_cordon(paths, "ann@hub") == [BOB]
    assert lift_cordon(paths, "eve@hub") == [BOB]
    assert read_cordons(paths) == [BOB]


def test_a_file_that_cannot_be_read_counts_as_a_cordon(paths: NodePaths) -> None:
    for text in ("{", "[]", '{"cordons": [{"id": 1}]}', '{"cordons": 7}'):
        (paths.root / "cordon.json").write_text(text)
        assert [one.owner for one in read_cordons(paths)] == [UNKNOWN]
        with pytest.raises(RefusedError, match="cannot be read"):
            require_no_cordon(paths, "gpu001")
    lift_cordon(paths, UNKNOWN)
    assert read_cordons(paths) == []
