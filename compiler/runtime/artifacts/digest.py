"""A digest in the metadata of the safetensors files that runs write, so that corruption is detected.

Assumes: files in the format safetensors: the length of the header, the header in JSON, the numbers.
Guarantees: `sealed` and `check_digest` fit together: SHA-256 over the whole file with zeros in place of the digest
itself. Every file of ours carries two marks, `writer` and `digest`: a changed bit in one of them leaves the other,
which says that something is missing. Files of others carry neither and are taken as they are.
Does not: read or write numbers.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from compiler.core.diagnostics import RunError

WRITER: Final = {"writer": "netloom"}
_DIGITS: Final = 64
_PLACE: Final = b'"digest":"'
_PART: Final = 1 << 22
_LONGEST: Final = 100_000_000  # bytes of a header, as the library has it


def sealed(header: Mapping[str, object], metadata: Mapping[str, str], parts: Iterable[memoryview]) -> bytes:
    """The first bytes of a file: the length of the header, and the header of `parts`, the numbers that follow."""
    marks = {**metadata, **WRITER, "digest": "0" * _DIGITS}
    whole = {"__metadata__": dict(sorted(marks.items())), **header}
    text = json.dumps(whole, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    start = len(text).to_bytes(8, "little") + text
    digest = hashlib.sha256(start)
    for part in parts:
        digest.update(part)
    at = start.index(_PLACE) + len(_PLACE)
    return start[:at] + digest.hexdigest().encode() + start[at + _DIGITS :]


def check_digest(path: Path) -> None:
    """Raises RunError (E0927, exit 2) where a file of ours is not as it was written. A file that is none of ours, or
    no safetensors file at all, is left to its reader."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        text = file.read(min(size, path.stat().st_size, _LONGEST))
        try:
            metadata = json.loads(text)["__metadata__"]
            marked = {"digest", *WRITER} & metadata.keys()
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            marked = set() if _PLACE not in text and b'"netloom"' not in text else {"digest"}
        if not marked:
            return
        at = text.find(_PLACE) + len(_PLACE)
        said = text[at : at + _DIGITS]
        digest = hashlib.sha256(size.to_bytes(8, "little") + text[:at] + b"0" * _DIGITS + text[at + _DIGITS :])
        while part := file.read(_PART):
            digest.update(part)
    if said != digest.hexdigest().encode():
        raise RunError(
            "E0927",
            f"`{path}` is damaged: its contents do not have the digest that was written with them",
            "take another checkpoint, a copy, or run again",
        )
