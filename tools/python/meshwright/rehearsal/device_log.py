"""Reads what the stand-in CUDA library writes of a process (tools/stand_in/log.h)."""

from __future__ import annotations

import ctypes
import os
import struct
from typing import Iterator, List, NamedTuple, Tuple

__all__ = ["DeviceLog", "Entry"]

_KINDS = ("launch", "product", "convolution", "collective", "copy", "set", "allocate", "release", "record_event",
          "wait_event", "wait_host", "mark", "refuse")
_ENTRY = struct.Struct("<QQQ6QIHBB")


class Entry(NamedTuple):
    """One call. `numbers` mean what log.h says of the kind; `operation` is the profiler's correlation id, or 0."""

    time_ns: int
    stream: int
    operation: int
    numbers: Tuple[int, ...]
    name: str
    thread: int
    kind: str
    device: int


class DeviceLog:
    """The log of this process. The library has it mapped; `position` is where the next entry goes."""

    def __init__(self) -> None:
        self._path = "{}.{}".format(os.environ["MESHWRIGHT_STAND_IN_LOG"], os.getpid())
        self._library = ctypes.CDLL(None)
        self._library.meshwright_stand_in_entries.restype = ctypes.c_uint64
        self._library.meshwright_stand_in_host_ns.restype = ctypes.c_uint64

    def position(self) -> int:
        return int(self._library.meshwright_stand_in_entries())

    def time_ns(self) -> int:
        """The clock of the entries, now."""
        return int(self._library.meshwright_stand_in_host_ns())

    def entries(self, begin: int, end: int) -> List[Entry]:
        return list(self._read(begin, end))

    def _read(self, begin: int, end: int) -> Iterator[Entry]:
        with open(self._path + ".names", encoding="utf-8") as file:
            names = [""] + file.read().split("\n")
        with open(self._path, "rb") as log:
            log.seek(begin * _ENTRY.size)
            content = log.read((end - begin) * _ENTRY.size)
        for fields in _ENTRY.iter_unpack(content):
            yield Entry(fields[0], fields[1], fields[2], fields[3:9], names[fields[9]], fields[10], _KINDS[fields[11]],
                        fields[12])

    def remove(self) -> None:
        """Deletes the files of the log."""
        for path in (self._path, self._path + ".names"):
            if os.path.exists(path):
                os.remove(path)
