"""What bursts become: one incident a device, what it calls for, and when it is over."""

from typing import Any

import pytest

from gpuguard.health.report import read

GPU = "NVRM: Xid (PCI:0000:4e:00): "


def incidents(*lines: str, driver: str | None = None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = read(["\n".join(lines).encode()], driver).to_dict()["incidents"]
    return found


def one(*lines: str, driver: str | None = None) -> dict[str, Any]:
    (incident,) = incidents(*lines, driver=driver)
    return incident


def test_remap_and_contained_error_are_one_incident() -> None:
    found = one(
        GPU + "63, pid='<unknown>', name=<unknown>, Row Remapper: New row marked for remapping",
        GPU + "94, pid=41210, name=python, Contained: SM (0x1). RST: No, D-RST: No",
    )
    assert (found["primary"], found["codes"], found["scope"]) == (94, [63, 94], "application")
    assert (found["action"], found["followup"]) == ("restart_app", "drain_and_reset")
    assert found["pids"] == [41210]


@pytest.mark.parametrize(
    ("code", "flags", "action", "scope"),
    [
        (94, "RST: No, D-RST: No", "restart_app", "application"),
        (94, "RST: Yes, D-RST: No", "reset_gpu", "gpu"),
        (94, "RST: No, D-RST: Yes", "drain_and_reset", "application"),
        (95, "RST: No, D-RST: No", "restart_app", "gpu"),
        (95, "RST: Yes, D-RST: No", "reset_gpu", "gpu"),
    ],
)
def test_flags_outrank_the_number(code: int, flags: str, action: str, scope: str) -> None:
    found = one(f"{GPU}{code}, Contained: PMU. {flags}")
    assert (found["action"], found["scope"]) == (action, scope)


@pytest.mark.parametrize(
    ("value", "action", "remedy"),
    [
        (1, "reset_gpu", "reset_gpu"),
        (2, "reboot_node", "reboot"),
        (3, "drain_p2p", "restart_job"),
        (4, "drain_and_reset", "reset_gpu"),
        (5, "recover_imex_domain", "reset_group"),
        (7, "reboot_node", "reboot"),
        (9, "contact_support", "none"),
    ],
)
def test_recovery_action_outranks_number_and_flags(value: int, action: str, remedy: str) -> None:
    found = one(
        GPU + "95, pid=1, name=x, Uncontained: LTC TAG (0x2). RST: Yes, D-RST: No",
        GPU + f"154, GPU recovery action changed from 0x0 (None) to {value:#x} (Whatever)",
    )
    assert (found["primary"], found["action"], found["remedy"]) == (95, action, remedy)


def test_a_lost_gpu_is_never_reset_because_the_driver_announces_it() -> None:
    found = one(
        GPU + "79, GPU has fallen off the bus.",
        GPU + "154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)",
    )
    assert found["action"] == "reboot_node"


def test_a_fault_after_the_all_clear_is_a_new_incident() -> None:
    found = incidents(
        f"[ 10.0] {GPU}31, pid=1, name=x, Ch 1",
        f"[ 11.0] {GPU}154, GPU recovery action changed from 0x0 (None) to 0x1 (x)",
        f"[ 12.0] {GPU}154, GPU recovery action changed from 0x1 (x) to 0x0 (None)",
        f"[ 13.0] {GPU}13, pid=2, name=y, Graphics Exception",
    )
    assert [(item["primary"], item["cleared"]) for item in found] == [(31, True), (13, False)]


def test_silence_ends_a_mild_burst_and_not_a_standing_fault() -> None:
    assert len(incidents(f"[ 10.0] {GPU}31, Ch 1", f"[ 400.0] {GPU}31, Ch 1")) == 2
    assert len(incidents(f"[ 10.0] {GPU}119, x", f"[ 400.0] {GPU}119, x")) == 1
    assert len(incidents(f"[ 10.0] {GPU}119, x", f"[ 20000.0] {GPU}119, x")) == 2


def test_a_driver_that_loads_ends_every_incident() -> None:
    load = "[ 20.0] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.127.05  Tue Oct"
    assert len(incidents(f"[ 10.0] {GPU}119, x", load, f"[ 30.0] {GPU}119, x")) == 2


def test_the_driver_in_the_log_decides_what_numbers_mean() -> None:
    load = "[ 20.0] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  {}  Tue Oct"
    old, new = load.format("550.127.05"), load.format("580.65.06")
    assert one(old, f"[ 21.0] {GPU}144, failed")["action"] == "restart_vm"
    assert one(old, f"[ 21.0] {GPU}119, x")["action"] == "reset_gpu"
    assert one(new, f"[ 21.0] {GPU}119, x")["action"] == "none"
    assert one(new, *(f"[ 2{n}.0] {GPU}119, x" for n in range(3)))["action"] == "reset_gpu"
    assert one(new, f"[ 21.0] {GPU}119, x", driver="550.127.05")["action"] == "reset_gpu"


def test_memory_error_alone_and_with_its_repair() -> None:
    dbe = GPU + "48, An uncorrectable double bit error (DBE) has been detected on GPU"
    assert one(dbe)["action"] == "reset_gpu"
    assert one(dbe, GPU + "63, Row Remapper: New row marked")["action"] == "drain_and_reset"
    contained = one(dbe, GPU + "94, pid=1, name=x, Ch 1")
    assert (contained["primary"], contained["action"]) == (94, "restart_app")


def test_a_far_end_follows_the_gpu_that_died() -> None:
    peer = "NVRM: Xid (PCI:0000:5e:00): "
    found = incidents(
        GPU + "79, GPU has fallen off the bus.",
        peer + "74, NVLink: fatal error detected on link 14(0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)",
    )
    assert [item["action"] for item in found] == ["reboot_node", "follow_primary_fault"]


def test_the_same_place_in_another_burst_suspects_the_hardware() -> None:
    line = GPU + "13, Graphics SM Warp Exception on (GPC 7, TPC {}, SM 0): Illegal"
    again = incidents(f"[ 10.0] {line.format(1)}", f"[ 900.0] {line.format(1)}")
    other = incidents(f"[ 10.0] {line.format(1)}", f"[ 900.0] {line.format(2)}")
    assert [item["investigate"] for item in again] == ["check_application", "contact_support"]
    assert [item["investigate"] for item in other] == ["check_application", "check_application"]


def test_a_line_that_a_program_wrote_is_marked_and_never_acted_on() -> None:
    report = read([f"12,7,5,-;{GPU}79, GPU has fallen off the bus.\n".encode()]).to_dict()
    assert [event["trusted"] for event in report["events"]] == [False]
    assert report["incidents"] == []
    assert report["counts"]["untrusted"] == 1


def test_journal_records() -> None:
    record = '{{"MESSAGE":"{}79, GPU has fallen off the bus.","_TRANSPORT":"{}","_HOSTNAME":"n1"}}'
    kernel = one(record.format(GPU, "kernel"))
    assert (kernel["host"], kernel["action"]) == ("n1", "reboot_node")
    assert incidents(record.format(GPU, "syslog")) == []


def test_hosts_of_one_log_are_kept_apart() -> None:
    lines = [f"May 19 07:08:57 n{host} kernel: {GPU}31, pid=1, name=x, Ch 1" for host in (1, 2)]
    assert [item["host"] for item in incidents(*lines)] == ["n1", "n2"]


def test_lost_gpu_is_told_once() -> None:
    found = one(
        f"[ 1.0] {GPU}79, GPU has fallen off the bus.",
        "[ 1.1] NVRM: GPU 0000:4e:00.0: GPU has fallen off the bus.",
    )
    assert (found["primary"], found["kind"]) == (79, "xid")


def test_unsupported_gpu_at_probe_time_is_not_lost() -> None:
    assert (
        incidents(
            "[ 1.0] NVRM: The NVIDIA GPU 0000:b3:00.0 (PCI ID: 10de:26b5)",
            "[ 1.1] NVRM: installed in this system is not supported by open nvidia.ko",
        )
        == []
    )


def test_a_log_that_names_its_host_in_some_lines_only_is_one_hosts() -> None:
    found = one(
        f"May 19 07:08:57 n1 kernel: {GPU}31, pid=1, name=x, Ch 1",
        f"[  12.0] {GPU}43, pid=1, name=x, Ch 1",
    )
    assert (found["host"], found["codes"]) == ("n1", [31, 43])


def test_colours_of_a_terminal_are_looked_through() -> None:
    line = "\x1b[32m[   12.000000] \x1b[0m\x1b[33mNVRM: \x1b[0mXid (PCI:0000:4e:00): 46, pid=1"
    assert one(line)["primary"] == 46


def test_repeated_messages_count_as_often_as_they_came() -> None:
    line = f"May 19 07:08:57 n kernel: {{}}{GPU}45, pid=1, name=x, Ch 1{{}}"
    found = one(line.format("", ""), line.format("message repeated 47 times: [ ", "]"))
    assert found["count"] == 48


def test_a_half_named_log_goes_on_after_an_incident_is_over() -> None:
    found = incidents(
        f"[  12.0] n1 kernel: {GPU}31, pid=1, name=x, Ch 1",
        f"[ 900.0] {GPU}43, pid=1, name=x, Ch 1",
        f"[ 2000.0] n1 kernel: {GPU}31, pid=1, name=x, Ch 1",
    )
    assert [item["count"] for item in found] == [1, 1, 1]
