"""Recognises files that are no ONNX models, before the package `onnx` is imported.

Assumes: a file that can be read.
Guarantees: files of other kinds and truncated ones are recognised by their first bytes and by the outermost fields of
the message (protobuf's wire format: a key of number and type, then a number or a length and so many bytes).
Does not: look into the graph.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO, Final

from compiler.files.guard import special

_GRAPH = 7  # the field `graph` of ModelProto
_LAST = 64  # ModelProto has fields up to 26
_MAGIC: Final = (
    (b"PK\x03\x04", "it is a zip archive, as PyTorch and NumPy write them"),
    (b"\x89HDF\r\n\x1a\n", "it is an HDF5 file"),
    (b"\x1f\x8b", "it is compressed by gzip"),
    (b"\x93NUMPY", "it is an array of NumPy"),
    (b"\x80\x02", "it is a pickle of Python"),
    (b"%PDF", "it is a PDF document"),
    (b"\x7fELF", "it is a program"),
    (b"version https://git-lfs", "it is a pointer of Git LFS; `git lfs pull` gets the file itself"),
)
TEXTS: Final = frozenset((".json", ".onnxjson", ".onnxtxt", ".onnxtext", ".textproto", ".prototxt", ".pbtxt", ".txtpb"))
"""Suffixes of text formats that the package `onnx` reads."""


def not_onnx(file: Path) -> str | None:
    """Why a file holds no ONNX model; None when it may. Raises OSError."""
    kind = special(file)
    if kind is not None:
        return f"it is {kind}, not a file"
    size = os.stat(file).st_size
    if size == 0:
        return "it is empty"
    with open(file, "rb") as stream:
        head = stream.read(1024)
        known = next((what for magic, what in _MAGIC if head.startswith(magic)), None)
        if known is not None:
            return known
        if head[8:9] == b"{" and int.from_bytes(head[:8], "little") < size:
            return "it is a safetensors file: weights without a graph"
        if _is_text(head):
            page = head.lstrip().lower().startswith((b"<!doctype html", b"<html"))
            text = "it is an HTML page, not the file that a link leads to" if page else "it is text"
            return None if file.suffix in TEXTS else text
        return _fields(stream, size)


def _is_text(head: bytes) -> bool:
    try:
        text = head.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(head) - 3:  # a character that is cut at the end of the bytes read
            return False
        text = head[: error.start].decode("utf-8")
    return all(c.isprintable() or c in "\t\r\n\f\ufeff" for c in text)


def _fields(stream: BinaryIO, size: int) -> str | None:
    """The outermost fields, by their keys: all must be those of a model, and the last must end with the file."""
    stream.seek(0)
    other, early = "it is not in ONNX's format", "it ends early: the file is cut off"
    graph = False
    while (at := stream.tell()) < size:
        key = _number(stream)
        if key is None:
            return early if at else other
        field, kind = key >> 3, key & 7
        if not 0 < field <= _LAST or kind not in (0, 1, 2, 5):
            return other
        length = {1: 8, 5: 4}.get(kind, 0)
        if kind in (0, 2):
            number = _number(stream)
            if number is None:
                return early
            length = number if kind == 2 else 0
        if stream.tell() + length > size:
            return early if graph or field == _GRAPH else other
        graph = graph or (field == _GRAPH and kind == 2)
        stream.seek(length, os.SEEK_CUR)
    return None if graph else "it has no graph"


def _number(stream: BinaryIO) -> int | None:
    """A varint (seven bits a byte, the lowest first); None where it does not end."""
    value = 0
    for shift in range(0, 70, 7):
        byte = stream.read(1)
        if not byte:
            return None
        value |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return value
    return None
