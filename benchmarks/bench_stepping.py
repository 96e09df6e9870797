"""A simulation from Python in 1,000 pieces of 1 ms, against one piece of 1 s: CPU seconds, medians, and their ratio.

python benchmarks/bench_stepping.py [--runs 7] [--model models/cuba.yaml]
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

import numpy as np

import netloom

ROOT = Path(__file__).resolve().parents[1]


def seconds(s: netloom.Simulation, piece: str, count: int) -> float:
    begin = time.process_time()
    for _ in range(count):
        s.run(piece)
    return time.process_time() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--model", default=str(ROOT / "models/cuba.yaml"))
    given = parser.parse_args()
    m = netloom.load(given.model)
    m.simulation().run("1 s")  # compiles
    pieces, whole = [], []
    for _ in range(given.runs):
        one, other = m.simulation(), m.simulation()
        pieces.append(seconds(one, "1 ms", 1000))
        whole.append(seconds(other, "1 s", 1))
        for name in one:
            for variable in one[name].variables:
                assert np.array_equal(one[name][variable], other[name][variable]), variable
    a, b = statistics.median(pieces), statistics.median(whole)
    print(f"1,000 pieces {a:.4f} CPU s   one piece {b:.4f} CPU s   ratio {a / b:.2f}")


if __name__ == "__main__":
    main()
