"""Headers, process names, details, and the decoding of links and switches."""

from typing import Any

import pytest

from gpuguard.health.addresses import normal_address
from gpuguard.health.nvlink4 import judge_bits
from gpuguard.health.nvlink5 import decode
from gpuguard.health.report import read
from gpuguard.health.xid_lines import headers, process_of
from gpuguard.health.xid_text import detail_of


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("0000:91:00", "0000:91:00.0"),
        ("00000000:91:00.0", "0000:91:00.0"),
        ("0018:01:00", "0018:01:00.0"),
        ("10000:E1:00.3", "10000:e1:00.3"),
        ("0001:00", "0000:01:00.0"),
        ("0000:91:20", None),
        ("0000:910:00", None),
        ("91", None),
        ("::", None),
    ],
)
def test_addresses(text: str, address: str | None) -> None:
    assert normal_address(text) == address


@pytest.mark.parametrize(
    "line",
    [
        b"NVRM: Xid PCI:0000:01:00: 43, x",
        b"NVRM: Xid (PCI:0000:66:00): abc, pid=1",
        b"NVRM: Xid (PCI:0000:66:00): 79x, pid=1",
        b"NVRM: Xid (PCI:0000:66:00): ",
        b"NVRM: Xid (PCI:0000:66:00",
        b"NVRM: Xid (invalid): some error",
        b"NVRM: Xid (PCI:0000:66:ff): 79, no such device number",
        b"xid (PCI:0000:66:00): 79",
    ],
)
def test_what_only_looks_like_a_header_is_none(line: bytes) -> None:
    assert headers(line) == []


def test_slices() -> None:
    (header,) = headers(b"NVRM: Xid (PCI:0000:3b:00 GPU-I:01 GPU-CI:02): 31, pid=1")
    assert (header.gi, header.ci, header.code, header.pci) == (1, 2, 31, "0000:3b:00.0")


@pytest.mark.parametrize(
    ("text", "pid", "name", "rest"),
    [
        ("pid=18141, name=cuda_assert_64b, Ch 00000018", 18141, "cuda_assert_64b", "Ch 00000018"),
        ("pid='<unknown>', name=<unknown>, Ch 1", None, None, "Ch 1"),
        ("pid=0, GPU has fallen off", None, None, "GPU has fallen off"),
        ("pid=1850, Row Remapper: x", 1850, None, "Row Remapper: x"),
        ("pid=5, name=nvc:[driver], GPU has", 5, "nvc:[driver]", "GPU has"),
        ("pid=5, name=a, b, Ch 00000001, intr 0", 5, "a, b", "Ch 00000001, intr 0"),
        ("pid=5, name=a,b c, Ch 00000001", 5, "a,b c", "Ch 00000001"),
        ("pid=5, name=ray::WorkerDict, RLW_RXPIPE Nonfatal XC0", 5, "ray::WorkerDict",
         "RLW_RXPIPE Nonfatal XC0"),
        ("pid=5, name=test", 5, "test", ""),
        ("pid=5", 5, None, ""),
        ("Ch 00000003, engmask 1", None, None, "Ch 00000003, engmask 1"),
    ],
)  # fmt: skip
def test_processes(text: str, pid: int | None, name: str | None, rest: str) -> None:
    assert process_of(text) == (pid, name, rest)


@pytest.mark.parametrize(
    ("code", "text", "expected"),
    [
        (154, "GPU recovery action changed from 0x0 (None) to 0x1 (PF FLR)",
         {"recovery_from": 0, "recovery_to": 1}),
        (95, "Uncontained: FBHUB. RST: No, D-RST: No",
         {"contained": False, "unit": "FBHUB", "unit_args": [], "rst": False, "drst": False}),
        (94, "Contained: CE User Channel (0x9). RST: No, D-RST: Yes", {"rst": False, "drst": True}),
        (171, "GDDR, Uncorrectable DRAM error in FBPA 3 subpartition 0 physAddr 0x12",
         {"memory": "dram", "fbpa": 3, "subpartition": 0, "phys_addr": "0x12"}),
        (48, "An uncorrectable double bit error (DBE) has been detected on GPU in L2 Cache at",
         {"memory": "sram"}),
        (63, "Dynamic Page Retirement: New page retired, reboot to activate (0x000000000003a5b6).",
         {"memory_repair": "page_retired"}),
        (45, "Ch 0000000a caused by previous Xid 31", {"channel": 10, "previous_xid": 31}),
        (45, "channel 0x0000000a", {"channel": 10}),
    ],
)  # fmt: skip
def test_details(code: int, text: str, expected: dict[str, Any]) -> None:
    found = detail_of(code, text)
    assert {key: found.get(key) for key in expected} == expected


@pytest.mark.parametrize(
    ("bits", "answer"),
    [
        ({"1": [8]}, ("check_mechanicals", "contact_support")),
        ({"1": [20]}, ("follow_primary_fault", "follow_primary_fault")),
        ({"1": [0, 23]}, ("none", "none")),
        ({"4": [18]}, ("reset_fabric", "contact_support")),
        ({"3": [16]}, ("none", "contact_support_if_repeated")),
        ({"7": [31]}, ("contact_support", "contact_support")),
        ({}, ("contact_support", "contact_support")),
    ],
)
def test_link_registers(bits: dict[str, list[int]], answer: tuple[str, str]) -> None:
    assert judge_bits(bits) == answer


@pytest.mark.parametrize(
    ("text", "driver", "layout", "action", "guess"),
    [
        ("NETIR_LINK_DOWN Fatal XC0 i0 Link 00 (0x02500011 0x00000000)", "580.65.06", "v2",
         "reset_gpu", False),
        ("NETIR_LINK_DOWN Fatal XC0 i0 Link 00 (0x02600011 0x00000000", None, "v2", "none", False),
        ("NETIR_LINK_EVT Fatal XC0 i0 Link 00 (0x026001c6 0x0)", "570.124.06", "v1", "none", False),
        ("NETIR_ODD Fatal XC0 i0 Link 00 (0x0 0x0)", None, "v1", "reset_gpu", True),
        ("NETIR_ODD Nonfatal XC0 i0 Link 00 (0x0 0x0)", None, "v1",
         "recovery_action_else_restart_app", True),
    ],
)  # fmt: skip
def test_fifth_links(text: str, driver: str | None, layout: str, action: str, guess: bool) -> None:
    decoded = decode(149, text, driver)
    assert decoded is not None
    assert (decoded.detail["layout"], decoded.action, decoded.guess) == (layout, action, guess)


def test_two_bits_of_a_status_take_the_harder_row() -> None:
    mild = decode(144, "SAW_MVB Nonfatal XC0 i0 Link 01 (0x00000021 0x00000001)", "570.1")
    both = decode(144, "SAW_MVB Fatal XC0 i0 Link 01 (0x00000021 0x00000003)", "570.1")
    assert mild is not None
    assert both is not None
    assert (mild.action, both.action) == ("none", "reset_gpu")


def test_a_promoted_error_takes_the_harder_row() -> None:
    text = "RLW_RXPIPE Fatal XC0 i0 Link 01 ({} 0x00000001)"
    mild = decode(145, text.format("0x000000c2"), "570.1")
    hard = decode(145, text.format("0x000004c2"), "570.1")
    assert mild is not None
    assert hard is not None
    assert (mild.action, hard.action) == ("none", "reset_gpu")
    assert hard.detail["promoted"] is True


def switch_events(*texts: str) -> list[dict[str, Any]]:
    head = "nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, "
    lines = [f"[ 1.0000{number}] {head}{text}" for number, text in enumerate(texts)]
    events: list[dict[str, Any]] = read(["\n".join(lines).encode()]).to_dict()["events"]
    return events


HEAD = "Fatal, Link 07 LTSSM Fault Up (First)"
PLACE = "Severity 1 Engine instance 07 Sub-engine instance 00"
WORDS = "Data {0x10000000, 0x10000000}"


@pytest.mark.parametrize(
    "texts",
    [(HEAD, PLACE, WORDS), (WORDS, HEAD, PLACE), (PLACE, HEAD, WORDS), (HEAD, WORDS, PLACE)],
)
def test_three_lines_are_one_switch_error(texts: tuple[str, ...]) -> None:
    (event,) = switch_events(*texts)
    assert (event["link"], event["fatal"]) == (7, True)
    assert event["same_error_lines"] == [0, 1, 2]


def test_a_headline_again_is_another_error() -> None:
    assert len(switch_events(HEAD, PLACE, HEAD, PLACE)) == 2
