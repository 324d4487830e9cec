"""A log that an endless loop filled is cut to its two ends."""

from pathlib import Path

from gpuguard.agent.criu.log import trim_log


def test_both_ends_stay(tmp_path: Path) -> None:
    log = tmp_path / "restore.log"
    log.write_text("first error\n" + "again\n" * 10000 + "last word\n")
    trim_log(log, kept=100)
    text = log.read_text()
    assert text.startswith("first error\n")
    assert text.endswith("again\nlast word\n")
    assert "bytes left out" in text
    assert len(text) < 300


def test_a_short_log_and_none_at_all_stay_as_they_are(tmp_path: Path) -> None:
    log = tmp_path / "restore.log"
    trim_log(log)
    assert not log.exists()
    log.write_text("short\n")
    trim_log(log)
    assert log.read_text() == "short\n"
