"""Two digests: of a model, and of a merged program (the input of a build folder).

Assumes: frozen dataclasses; spans are outside of equality.
Guarantees: equal models have equal hashes, wherever they are in their files; `simulate`, `train`, `record`, `plots` and
`expect` are not part of the model's hash, nor are parameters that only they use; a value from a file is hashed by the
file's content, so that a model may be moved with its files. The program's digest covers everything that is emitted,
including comments that name model lines.
Does not: hash training data, which is not part of the model.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import compiler.ir.level0.model as l0
import compiler.ir.level2.program as l2

OUTSIDE = frozenset({"description", "simulate", "train", "spikes", "traces", "plots", "expect"})
"""Fields that are not part of a model's identity."""


@cache
def _fields(cls: Any) -> tuple[str, ...]:
    return tuple(f.name for f in dataclasses.fields(cls) if f.compare)


def _digest(value: object, done: dict[int, bytes]) -> bytes:
    """A digest that is equal for equal values; a shared subtree is visited once (`done`, by identity)."""
    if isinstance(value, tuple):
        return b"(" + b",".join([_digest(v, done) for v in value]) + b")"
    if isinstance(value, l0.FromFile):
        return repr((value.array, value.scale)).encode() + _file_digest(value.path)
    if dataclasses.is_dataclass(value):
        known = done.get(id(value))
        if known is None:
            cls: Any = type(value)
            parts = [_digest(getattr(value, name), done) for name in _fields(cls)]
            text = cls.__name__.encode() + b"\0" + b"\0".join(parts)
            known = done[id(value)] = hashlib.blake2b(text, digest_size=20).digest()
        return known
    return repr(value).encode()


def _file_digest(path: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError:
        return path.encode()


def model_hash(model: l0.Model) -> str:
    """Hexadecimal digest of what defines the model."""
    done: dict[int, bytes] = {}
    h = hashlib.sha256()
    # A parameter counts through the values it determines; only those that equations read by name count themselves.
    sources = [d.source for d in (*model.drives, *(i.changing for i in model.poisson if i.changing is not None))]
    neurons = (*(p.neuron for p in model.populations), *(s.neuron for s in sources))
    read = {name for neuron in neurons for name in neuron.model_params}
    params = tuple((p.name, p.value) for p in model.params if p.name in read)
    for name in _fields(l0.Model):
        if name not in OUTSIDE:
            value = params if name == "params" else getattr(model, name)
            h.update(name.encode() + b"=" + _digest(value, done) + b"\n")
    if model.simulate is not None:
        h.update(repr((model.simulate.dt, model.simulate.warmup)).encode())  # what the clock shows after a step
    return h.hexdigest()


def text_digest(program: l2.Merged, options: Mapping[str, str]) -> str:
    """Hexadecimal digest of what the text of a merged program depends on, and of the build options."""
    head = repr((program.name, program.precision.value, program.order.value, sorted(options.items())))
    lines = [head, *(f"{t.digest} {t.name} {_place(t)}" for t in program.templates)]
    return hashlib.blake2b("\0".join(lines).encode(), digest_size=20).hexdigest()


def program_digest(program: l2.Merged, options: Mapping[str, str]) -> str:
    """Hexadecimal digest of a merged program and of the build options."""
    h = hashlib.blake2b(digest_size=20)

    def add(text: str) -> None:
        h.update(text.encode() + b"\0")

    add(text_digest(program, options))
    for rows in program.tables:
        for formal, names in rows.arrays.items():
            add(formal + "=" + "\n".join(names))
        for column, values in rows.scalars.items():
            h.update(column.encode())
            h.update(values.tobytes() if isinstance(values, np.ndarray) else "\0".join(map(_word, values)).encode())
        add("\n".join(rows.paths))
    add(repr(program.phases))
    add("\0".join(_arrays(program.arrays)))
    for name, constant in program.constants.items():
        add(name)
        h.update(np.ascontiguousarray(constant).tobytes())
    return h.hexdigest()


def _arrays(arrays: Iterable[l2.Array]) -> Iterator[str]:
    """What counts of arrays, of which many have all but their names in common."""
    known: dict[object, str] = {}
    for a in arrays:
        form = a.dtype, a.shape, a.role, a.layout
        middle = known.get(form) or known.setdefault(form, f"{a.dtype} {a.shape} {a.role} {a.layout}")
        yield f"{a.name} {middle} {a.size_from} {a.unit}"


def _word(value: l2.ColumnValue) -> str:
    match value:
        case l2.StreamKey(path):
            return f"key {path}"
        case l2.SizeOf(array):
            return f"size {array}"
    return repr(value)


def _place(template: l2.Template) -> str:
    return str(template.span) if template.span.file.text else ""
