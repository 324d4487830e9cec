"""A reader of stdout that goes away while nothing is written."""

import os
import subprocess
import sys

CODE = """
import sys, threading
from gpuguard.commands.reader import reader_watched
sys.stdout.write("one line\\n")
sys.stdout.flush()
try:
    with reader_watched():
        threading.Event().wait(float(sys.argv[1]))
except BrokenPipeError:
    sys.exit(7)
"""


def start(seconds: float, stdout: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", CODE, str(seconds)], stdout=stdout)


def test_a_silent_block_ends_when_its_reader_goes() -> None:
    with start(50, subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"one line\n"
        child.stdout.close()
        assert child.wait(timeout=20) == 7


def test_a_block_with_a_reader_goes_on() -> None:
    with start(0.6, subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.read() == b"one line\n"
        assert child.wait(timeout=20) == 0


def test_a_file_has_no_reader_to_lose() -> None:
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        assert start(0.6, null).wait(timeout=20) == 0
    finally:
        os.close(null)
