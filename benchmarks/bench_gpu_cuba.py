"""Claim: none; the time of a step of cuba on one GPU at its published size (4,000 neurons) and with 1,000 times as many
neurons, each with as many synapses; and how many kernels a step launches.

Measured, on one GPU: microseconds of a step without recording, as the median over rounds of `--steps` steps, in the way
that the run has chosen by measuring (gpu_stepping.py); seconds of loading and connecting; kernels of a step as single
launches, and as waves.

Usage: bench_gpu_cuba.py [--steps 5000] [--rounds 3] [--larger 1000]
"""

from __future__ import annotations

import argparse
import statistics
from dataclasses import asdict

from common import ROOT, table, write_results
from gpu_stepping import stepping

P, EXCITATORY, INHIBITORY = 0.02, 3200, 800


def settings(larger: int) -> dict[str, str]:
    """The parameters of the model with `larger` times as many neurons, and as many synapses of each."""
    sizes = {"n_exc": str(EXCITATORY * larger), "n_inh": str(INHIBITORY * larger)}
    return {**sizes, "p": repr(P / larger)}


def silent(text: str) -> str:
    """The model without what it records and plots."""
    kept, place = text.split("\nrecord:\n"), "models/cuba.yaml does not look as this script expects"
    assert len(kept) == 2 and "\nplots:\n" in kept[1], place
    return kept[0] + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--larger", type=int, default=1000)
    arguments = parser.parse_args()
    text = silent((ROOT / "models" / "cuba.yaml").read_text(encoding="utf-8"))
    sizes = (1, arguments.larger)
    found = {n: stepping("cuba", text, settings(n), arguments.steps, arguments.rounds) for n in sizes}
    print(f"cuba, us per step of 0.1 ms without recording, {arguments.rounds} rounds of {arguments.steps} steps")
    rows = [
        [
            f"{(EXCITATORY + INHIBITORY) * n:,} neurons, {x.synapses:,} synapses",
            statistics.median(x.us),
            min(x.us),
            max(x.us),
            x.way,
            x.launches,
            x.waves or "none",
            x.loading_s,
        ]
        for n, x in found.items()
    ]
    table(["", "median", "least", "most", "way", "kernels as graphs", "as waves", "loading, s"], rows)
    write_results("gpu_cuba", {"larger": arguments.larger, "found": {n: asdict(x) for n, x in found.items()}})


if __name__ == "__main__":
    main()
