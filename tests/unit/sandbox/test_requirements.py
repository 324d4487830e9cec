"""Where no sandbox can stand, the refusal says why and what to do."""

import os
import platform
import shutil

import pytest

from gpuguard.model.errors import RefusedError
from gpuguard.sandbox import fleet
from gpuguard.sandbox.requirements import missing_packages, refusal


def test_another_system_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    with pytest.raises(RefusedError, match=r"needs Linux.*Darwin"):
        fleet.up("never")


def test_without_root_it_is_refused_before_anything_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    no = refusal()
    assert no and "needs root" in no.message
    assert no.hint == "sudo gpuguard sandbox up"


def test_missing_tools_are_named_by_their_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda tool: None if tool == "ip" else f"/bin/{tool}")
    assert "iproute2" in missing_packages()
