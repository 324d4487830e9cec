"""A cordon on a node that a job would start on."""

import pytest

from gpuguard.agent.host.cordons import set_cordon
from gpuguard.agent.jobs.launching import run_job
from gpuguard.agent.paths import NodePaths
from gpuguard.model.cordons import Cordon
from gpuguard.model.errors import RefusedError
from gpuguard.model.jobs import JobPolicy, JobSpec

ANN = Cordon("a1", "ann@hub", "fan 2 is loud", "2026-01-31T12:00:00Z")


@pytest.mark.usefixtures("as_root")
def test_the_node_itself_refuses_a_new_job(paths: NodePaths) -> None:
    set_cordon(paths, ANN)
    with pytest.raises(RefusedError, match=r"cordoned by ann@hub .* fan 2") as caught:
        run_job(paths, JobSpec("llm", uid="u", command=("true",)), JobPolicy(), "u")
    assert caught.value.hint
    assert caught.value.hint.startswith("gpuguard uncordon ")
