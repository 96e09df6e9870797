"""manifest.json: every array, kernel, table and phase of a built program, by name.

Assumes: a placement of the program.
Guarantees: the same form for every target, so that other tools find arrays and columns in what `build` wrote. Of an
array with a part for each step of a loop, where the first one is, and elements between two of them. Of a kernel, the
populations, projections or layers that share it (`of`): its text does not depend on how many they are.
Does not: hold tables or contents.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from json.encoder import encode_basestring_ascii as text
from typing import Any

import compiler.ir.level2.program as l2
from backends.kernel_ir.descriptor import CompiledKernel
from backends.protocol import Artifact
from compiler.core.symbols import printed
from compiler.ir.space import Role
from compiler.layout.plan_memory import Placement


def _arrays(arrays: Iterable[l2.Array], placement: Placement) -> Iterator[str]:
    """The lines of arrays, of which a model may have 100,000: as `json.dumps` writes them."""
    offsets, known = placement.offsets, dict[object, str]()
    for a in arrays:
        form = a.dtype, a.shape, a.layout, a.unit
        middle = known.get(form) or known.setdefault(form, _form(a))
        offset = offsets.get(a.name)
        steps = f', "by_step": {a.by_step}, "ring": {a.ring}' if a.by_step else ""
        yield (
            f'    {{"name": {text(a.name)}, "role": "{a.role}", "offset": {"null" if offset is None else offset}, '
            f'{middle}, "size_from": {"null" if a.size_from is None else text(a.size_from)}{steps}}}'
        )


def _form(a: l2.Array) -> str:
    """What many arrays have in common."""
    layout = "null" if a.layout is None else f'{{"lanes": {a.layout.lanes}}}'
    return f'"dtype": "{a.dtype.numpy}", "shape": {list(a.shape)}, "layout": {layout}, "unit": {text(a.unit)}'


def _kernel(template: l2.Template, rows: l2.Rows, compiled: CompiledKernel) -> dict[str, Any]:
    formals = [template.formals[n] for n in compiled.columns]
    return {
        "index": template.index,
        "name": template.name,
        "function": compiled.function,
        "digest": template.digest,
        "rows": rows.count,
        "of": list(dict.fromkeys(path.partition(".")[0] for path in rows.paths)),
        "columns": [
            {
                "name": printed(f.name),
                "field": field,
                "kind": "scalar" if isinstance(f, l2.ScalarFormal) else "array",
                "dtype": f.dtype.numpy,
            }
            for f, field in zip(formals, compiled.fields, strict=True)
        ],
    }


def manifest(program: l2.Merged, placement: Placement, artifact: Artifact, seed: int, target: str) -> str:
    """The JSON text: one line per array, so that a long list stays readable."""
    head: dict[str, Any] = {
        "format": 1,
        "name": program.name,
        "target": target,
        "precision": str(program.precision),
        "order": str(program.order),
        "seed": seed,
        "key": artifact.key,
        "compiler": artifact.compiler,
        "flags": list(artifact.flags),
        "roles": [str(r) for r in Role],
        "arena_bytes": {str(r): placement.arena_bytes.get(r, 0) for r in Role},
        "phases": [
            {
                "name": p.name,
                "launches": [[x.template, x.lo, x.hi, x.every, x.offset] for x in p.launches],
                "loops": [[x.first, x.last, x.steps] for x in p.loops],
            }
            for p in program.phases
        ],
        "kernels": [
            _kernel(t, rows, compiled)
            for t, rows, compiled in zip(program.templates, program.tables, artifact.kernels, strict=True)
        ],
    }
    lines = [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
    arrays = ",\n".join(_arrays(program.arrays, placement))
    return "{\n" + ",\n".join([*lines, f'  "arrays": [\n{arrays}\n  ]']) + "\n}\n"
