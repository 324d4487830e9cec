"""Kernel lines that are no Xid and still tell of GPUs: identity, loss, GSP, PCIe, stuck tasks."""

import re
from dataclasses import dataclass, field
from typing import Any, Optional

from gpuguard.health.addresses import normal_address
from gpuguard.health.events import Context
from gpuguard.health.stamps import Prefix

_PCI = r"([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?)"
_UUID = re.compile(rf"GPU at (?:PCI:)?{_PCI}: (GPU-[0-9a-fA-F-]{{36}})")
_SERIAL = re.compile(r"GPU Board Serial Number:\s*(\w*)")
_SERIAL_OF = re.compile(rf"GPU {_PCI}: GPU serial number is (\w*)")
_LOST = re.compile(rf"GPU (?:at )?(?:PCI:)?{_PCI}:? (?:GPU )?has fallen off the bus")
_PROBE = re.compile(rf"The NVIDIA GPU {_PCI}")
_PROBE_LOST = re.compile(r"fallen off the bus and is not responding")
_PROBE_FAILED = re.compile(r"NVIDIA probe routine failed for (\d+) device")
_DRIVER = re.compile(r"loading NVIDIA UNIX\b.*?\s(\d{3}(?:\.\d+){1,2})\s")
_RATE = re.compile(rf"Rate limiting GSP RPC error prints for GPU at (?:PCI:)?{_PCI}")
_INIT = re.compile(rf"(?:GPU {_PCI}: )?(?:RmInitAdapter|rm_init_adapter) failed")
_DUMP = re.compile(r"A GPU crash dump has been created")
_GSP = re.compile(
    r"_?kgsp[A-Z]|\bGSP\b|\bGSP_|RPC history|_issueRpc|rpcRecvPoll|\d+ +[A-Z]+_[A-Z_]+ +0x"
)
_UVM = re.compile(r"uvm encountered global fatal error (0x[0-9a-fA-F]+)")
_AER = re.compile(rf"(pcieport|nvidia) {_PCI}:\s+(.*)")
_AER_HEAD = re.compile(
    r"(?:AER: )?(?:Multiple )?(Corrected|Uncorrect(?:ed|able) \((?:Non-?Fatal|Fatal)\)|Uncorrected)"
    r"(?: \((?:Non-?Fatal|Fatal)\))?.{0,20} received"
)
_AER_TYPE = re.compile(r"PCIe Bus Error: severity=([\w-]+(?: \([\w-]+\))?)")
_AER_MORE = re.compile(r"device \[|\[\s*\d+\]\s|broadcast |AER: |TLP Header|PCIe Bus Error")
_AER_BIT = re.compile(r"\[\s*\d+\]\s+(.+?)\s*(?:\(First\))?\s*$")
_NO_AER_DRIVER = re.compile(r"no AER-aware driver|can't recover \(no error_detected")
_HUNG = re.compile(r"INFO: task (.{1,32}?):(\d+) blocked for more than (\d+) seconds")
_HUNG_MORE = re.compile(r'\s*(?:Tainted:|Not tainted|"echo 0 > |task:)')
_HOTPLUG = re.compile(r"pciehp.*(?:Link Down|Card not present)")
_SHORT_NAMES = {"SDES": "Surprise Down", "Surprise Down Error": "Surprise Down"}
HUNG_TAIL = 4  # lines of one report after its first
_LONGEST = 16  # lines of one PCIe error


@dataclass
class Reader:
    """Read the lines between the Xids; some of them stand over several lines."""

    _serial_of: Optional[str] = None  # the GPU whose serial number comes next
    _probe: Optional[Context] = None
    _aer: dict[str, Context] = field(default_factory=dict)
    _hung: Optional[Context] = None

    def read_driver(self, text: str, number: int, prefix: Prefix) -> Optional[Context]:
        """Return what a line of the GPU driver, `text` after NVRM, tells; None if nothing."""
        for pattern, kind in _SIMPLE:
            match = pattern.search(text)
            if match:
                return self._simple(kind, match, number, prefix)
        return self._probing(text, number, prefix)

    def _simple(
        self, kind: str, match: "re.Match[str]", number: int, prefix: Prefix
    ) -> Optional[Context]:
        found = Context(number, kind.removesuffix("_of"), prefix, lines=[number])
        fields = _FIELDS.get(kind)
        if fields:
            pci, name = fields
            found.pci = normal_address(match[pci]) if pci and match[pci] else None
            if name:
                value = match[match.lastindex or 0]
                found.fields[name] = int(value) if name == "count" else value or None
        if kind == "gpu_identity":
            self._serial_of = found.pci
        elif kind == "gpu_serial" and found.pci is None:
            found.pci = self._serial_of
        return found

    def _probing(self, text: str, number: int, prefix: Prefix) -> Optional[Context]:
        """Read the message over three lines; the first of them is shared with harmless ones."""
        probe = _PROBE.search(text)
        if probe:
            self._probe = Context(
                number, "gpu_lost", prefix, normal_address(probe[1]), {"at": "probe"}, [number]
            )
        elif self._probe and "(PCI ID:" in text:
            self._probe.lines.append(number)
        if self._probe and _PROBE_LOST.search(text):
            found, self._probe = self._probe, None
            if number not in found.lines:
                found.lines.append(number)
            return found
        return None

    def read_bus(self, text: str, number: int, prefix: Prefix) -> Optional[Context]:
        """Return the PCIe error that a line begins, or what a GPU's function says of one."""
        match = _AER.match(text)
        pci = normal_address(match[2]) if match else None
        if match is None or pci is None:
            return None
        if _NO_AER_DRIVER.search(match[3]):
            return Context(number, "aer_no_driver", prefix, pci, lines=[number])
        return self._port(pci, match[3], number, prefix)

    def _port(self, pci: str, text: str, number: int, prefix: Prefix) -> Optional[Context]:
        opened = self._aer.get(pci)
        head = _AER_HEAD.match(text)
        begin = head or (_AER_TYPE.match(text) if opened is None else None)
        if begin:
            if len(self._aer) > 256:
                self._aer.clear()
            fields: dict[str, Any] = {"severity": _bus_severity(begin[0])}
            self._aer[pci] = Context(number, "aer", prefix, pci, fields, [number])
            return self._aer[pci]
        if opened and _AER_MORE.match(text) and len(opened.lines) < _LONGEST:
            opened.lines.append(number)
            bit = _AER_BIT.match(text)
            if bit and "cause" not in opened.fields:
                opened.fields["cause"] = _SHORT_NAMES.get(bit[1], bit[1])
        return None

    def read_hung(self, text: str, number: int, prefix: Prefix) -> Optional[Context]:
        """Return the stuck task that a line tells of."""
        match = _HUNG.match(text)
        if match is None:
            return None
        fields = {"name": match[1], "pid": int(match[2]), "seconds": int(match[3])}
        self._hung = Context(number, "hung_task", prefix, None, fields, [number])
        return self._hung

    def read_after_hung(self, text: str, number: int) -> None:
        """Take a line into the report of a stuck task, if it belongs to it."""
        if self._hung is not None and _HUNG_MORE.match(text):
            self._hung.lines.append(number)


def read_hotplug(text: str, number: int, prefix: Prefix) -> Optional[Context]:
    """Return the word that a slot lost its card."""
    return Context(number, "hotplug", prefix, lines=[number]) if _HOTPLUG.search(text) else None


def _bus_severity(text: str) -> str:
    low = text.lower()
    if "uncorrect" not in low:
        return "corrected"
    return "nonfatal" if "non-fatal" in low or "nonfatal" in low else "fatal"


_SIMPLE = (
    (_UUID, "gpu_identity"),
    (_SERIAL, "gpu_serial"),
    (_SERIAL_OF, "gpu_serial_of"),
    (_LOST, "gpu_lost"),
    (_PROBE_FAILED, "probe_failed"),
    (_DRIVER, "driver_load"),
    (_RATE, "rate_limit"),
    (_INIT, "init_failed"),
    (_DUMP, "crash_dump"),
    (_UVM, "uvm_fatal"),
    (_GSP, "gsp_note"),
)
# kind: the group of the address, and the name of the last group
_FIELDS: dict[str, tuple[int, Optional[str]]] = {
    "gpu_identity": (1, "uuid"),
    "gpu_serial": (0, "serial"),
    "gpu_serial_of": (1, "serial"),
    "gpu_lost": (1, None),
    "probe_failed": (0, "count"),
    "driver_load": (0, "driver"),
    "rate_limit": (1, None),
    "init_failed": (1, None),
    "uvm_fatal": (0, "error"),
}
