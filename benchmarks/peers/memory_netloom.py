"""Peak memory of a training in Netloom (see bench_memory.py).

Usage: memory_netloom.py MODEL.yaml    trains one epoch in the current folder and prints one JSON object.

Counted from after the imports, as for PyTorch; reading and lowering the model and writing the results are counted.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path

from peak import Peak

from compiler.layout.plan_memory import place
from compiler.runtime.common.options import Options
from compiler.runtime.common.timing import Times
from compiler.runtime.prepare import prepare
from netloom import run

PARTS = (
    "backends.cpu.backend",
    "compiler.passes.pipeline.tensors",
    "compiler.runtime.execute",
    "compiler.runtime.training.run_training",
)
"""Imported ahead, so that they are not counted."""


def main() -> None:
    path = Path(sys.argv[1])
    for part in PARTS:
        import_module(part)
    peak = Peak()
    run(path, epochs=1)
    found = peak.bytes()
    merged = prepare(path, Options("cpu"), Times()).lowered.merged
    arenas = sum(place(merged, {}).arena_bytes.values())
    print(json.dumps({"peak_mb": found / 1e6, "arenas_mb": arenas / 1e6}))


if __name__ == "__main__":
    main()
