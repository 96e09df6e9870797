"""Clears the writer's mark in HDF5 files of a killed run. A file that is open for writing has a mark in its superblock,
which a killed process leaves behind: HDF5 then opens the file for reading as SWMR only, and not at all for writing. The
mark is one byte; the superblock (version 3, 48 bytes for addresses of 8 bytes) ends with a checksum of the rest, Bob
Jenkins' lookup3 (HDF5 File Format Specification 3.0, II.A).

Assumes: the file was written as compiler/runtime/record/growing.py does (format 1.10, SWMR): it is consistent at any
moment.
Guarantees: the contents are unchanged; new data are appended.
Does not: repair anything else.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Final

_MAGIC: Final = b"\x89HDF\r\n\x1a\n\x03\x08\x08"  # signature, version 3, addresses and lengths of 8 bytes
_MARKS, _END, _SUM, _SIZE = 11, 28, 44, 48  # offsets of the marks, the end of file, the checksum; total size
_WORD: Final = 0xFFFFFFFF


def unmark(path: Path) -> None:
    """Clear the mark of a killed writer. Raises ValueError for any other file, OSError."""
    with path.open("r+b") as file:
        block = bytearray(file.read(_SIZE))
        if len(block) < _SIZE or not block.startswith(_MAGIC):
            raise ValueError("it was killed before its first step, or is damaged")
        if struct.unpack_from("<I", block, _SUM)[0] != lookup3(bytes(block[:_SUM])):
            raise ValueError("its first block is damaged")
        if not block[_MARKS]:
            return
        block[_MARKS] = 0
        # Space that the killed writer had reserved may follow the recorded end of file.
        end = max(struct.unpack_from("<Q", block, _END)[0], os.fstat(file.fileno()).st_size)
        struct.pack_into("<Q", block, _END, end)
        struct.pack_into("<I", block, _SUM, lookup3(bytes(block[:_SUM])))
        file.seek(0)
        file.write(block)


def lookup3(data: bytes) -> int:
    """Jenkins' hash of some bytes, 32 bits wide, from the initial value 0."""
    a: int
    b: int
    c: int
    a = b = c = (0xDEADBEEF + len(data)) & _WORD
    at = 0
    while len(data) - at > 12:
        x, y, z = struct.unpack_from("<III", data, at)
        a, b, c = a + x & _WORD, b + y & _WORD, c + z & _WORD
        # Each round: a -= c; a ^= rot(c, n); c += b.
        for turn in (4, 6, 8, 16, 19, 4):
            a = (a - c & _WORD) ^ _turned(c, turn)
            c = c + b & _WORD
            a, b, c = b, c, a
        at += 12
    if at == len(data):
        return c
    x, y, z = struct.unpack("<III", data[at:].ljust(12, b"\0"))
    a, b, c = a + x & _WORD, b + y & _WORD, c + z & _WORD
    for turn in (14, 11, 25, 16, 4, 14, 24):
        c = (c ^ b) - _turned(b, turn) & _WORD
        a, b, c = b, c, a
    # Seven rounds over three names: the last one assigned is b.
    return b


def _turned(value: int, count: int) -> int:
    return (value << count | value >> (32 - count)) & _WORD
