"""Damaged files: any exception of their readers becomes a ValueError with one line of text.

Assumes: readers of zip, gzip, HDF5 and Parquet, which raise errors of many kinds for bytes that they do not expect.
Guarantees: an OSError of the system (no such file, no permission) passes through as it is.
Does not: look at the files.
"""

from __future__ import annotations

import lzma
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_KINDS: Final = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError, tokenize.TokenError),
    *(LookupError, NotImplementedError, RuntimeError, TypeError, OverflowError, SyntaxError, ValueError),
)


@contextmanager
def damage_as_value_error() -> Iterator[None]:
    """Within it, a damaged file is a ValueError."""
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.filename is not None:
            raise
        raise ValueError(_line(error)) from None
    except MemoryError:
        raise ValueError("what it says that it holds does not fit into memory") from None
    except _KINDS as error:
        raise ValueError(_line(error)) from None


def _line(error: Exception) -> str:
    said = error.args[0] if isinstance(error, LookupError) and error.args else error
    return " ".join(str(said).split())[:300] or f"it is damaged ({type(error).__name__})"
