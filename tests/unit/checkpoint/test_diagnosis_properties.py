"""What holds for any log and any context."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gpuguard.checkpoint.diagnosis import Diagnosis, diagnose
from tests.unit.checkpoint.known_lines import CUDA, KNOWN

NOISE = [
    "Error (criu/tun.c:85): tun: Unable to create tun: No such file or directory",
    "Error (criu/util.c:1533): rlimit: Can't setup RLIMIT_NOFILE for self: Operation not permitted",
    "Error (cuda_plugin.c:221): cuda_plugin: Failed to launch cuda-checkpoint to retrieve restore "
    "tid: Could not find restore thread for process ID 812",
    "Error (compel/src/lib/infect.c:418): Unable to detach from 812: No such process",
    "Warn  (compel/arch/x86/src/lib/infect.c:418): Will restore 812 with interrupted system call",
    "Warn  (criu/kerndat.c:1245): Stale /run/criu.kdat file",
]
CAUSES = {row[0]: row[1] for row in KNOWN}
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12)
values: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=8) | st.integers(), inner, max_size=3)
    ),
    max_leaves=8,
)
KEYS = """
criu kernel driver job host pid fd fds holder tracer fleet destination record images env libs
cuda_states cuda_state ghost_limit open_flags port peers gpu_memory_mib pages page_server maps
plugin_loaded restore_stdin invoked_by exit_signal state mig arch timeout locks missing_flags
"""
contexts = st.dictionaries(st.sampled_from(KEYS.split()) | st.text(max_size=6), values, max_size=6)
returns = st.none() | st.integers(-20, 256)
known_texts = st.sampled_from([row[0] for row in KNOWN])
known_lines = known_texts.map(lambda text: f"(00.01) Error (criu/x.c:1): {text}") | st.sampled_from(
    [row[0] for row in CUDA]
)


def has_an_answer(diagnosis: Diagnosis) -> bool:
    return all((diagnosis.cause, diagnosis.sentence, diagnosis.remedy, diagnosis.text()))


@given(st.lists(st.text()), contexts, returns)
def test_no_text_makes_it_raise(lines: list[str], context: dict[str, Any], rc: Any) -> None:
    assert has_an_answer(diagnose(lines, context, rc, None))


@given(st.lists(known_lines | st.text(max_size=40), max_size=4), contexts, returns)
def test_no_context_makes_a_known_line_raise(
    lines: list[str], context: dict[str, Any], rc: Any
) -> None:
    diagnosis = diagnose(lines, context, rc, "dump.log")
    assert has_an_answer(diagnosis)
    assert Diagnosis.from_dict(diagnosis.to_dict()) == diagnosis


@given(known_lines, st.data())
def test_cut_and_mangled_lines_do_not_raise(line: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(line)))
    end = data.draw(st.integers(start, len(line)))
    mangled = line[:start] + data.draw(st.text(max_size=5)) + line[end:]
    assert has_an_answer(diagnose([mangled], {}, 1, None))


@given(known_texts, st.lists(st.sampled_from(NOISE), max_size=8), st.integers(0, 8))
def test_order_and_amount_of_noise_do_not_change_the_cause(
    text: str, noise: list[str], place: int
) -> None:
    lines = [f"(00.{n:06}) {line}" for n, line in enumerate(noise)]
    lines.insert(place, f"(00.5) Error (criu/x.c:1): {text}")
    assert diagnose(lines, {}, 1, None).cause == CAUSES[text]


@given(
    known_texts,
    st.integers(1, 4_194_304),
    st.integers(1, 9999),
    st.floats(0, 99999, allow_nan=False),
    st.booleans(),
)
def test_pid_time_and_place_do_not_change_the_cause(
    text: str, pid: int, place: int, seconds: float, child: bool
) -> None:
    front = f"({seconds:09.6f})" + (f"{pid:>7}:" if child else "")
    line = f"{front} Error (criu/moved.c:{place}): {text}"
    assert diagnose([line], {}, 1, None).cause == CAUSES[text]


@given(st.permutations(NOISE))
def test_noise_alone_is_never_a_cause(noise: list[str]) -> None:
    assert diagnose(noise, {}, 1, None).cause == "not_recognised"
