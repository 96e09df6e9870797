"""Claim: a step of the cortical microcircuit at full scale (77,169 neurons, 299 million synapses, 0.1 ms) takes at most
4.5 us on one GPU without recording and 6 us with all spikes recorded (H100): a real-time factor of 0.045.

Measured, on one GPU: microseconds of a step, as the median over rounds of `--steps` steps, after the run has chosen how
to make them (gpu_stepping.py). With recording, buffers of spikes are emptied on the device whenever they are full and
nothing is copied to the host.

Usage: bench_gpu_microcircuit.py [--steps 20000] [--rounds 3] [--scale 1]
"""

from __future__ import annotations

import argparse
import re
import statistics

from common import ROOT, table, write_results
from gpu_stepping import stepping


def silent(text: str) -> str:
    """The model without `record` and what is expected of it."""
    for block in ("record", "expect"):
        text, count = re.subn(rf"(?m)^{block}:.*\n(?:[ #-].*\n|\n)*", "", text)
        assert count == 1, "microcircuit.yaml does not look as this script expects"
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", default="1", help="of neurons and synapses")
    arguments = parser.parse_args()
    text = (ROOT / "models" / "microcircuit.yaml").read_text(encoding="utf-8")
    settings = {"scale_n": arguments.scale, "scale_k": arguments.scale}
    found = {
        name: stepping("microcircuit", changed, settings, arguments.steps, arguments.rounds).us
        for name, changed in (("without recording", silent(text)), ("spikes recorded", text))
    }
    print(f"microcircuit, scale {arguments.scale}: us per step of 0.1 ms, {arguments.rounds} rounds")
    rows = [[name, statistics.median(t), min(t), max(t), statistics.median(t) / 100] for name, t in found.items()]
    table(["", "median", "least", "most", "real-time factor"], rows)
    write_results("gpu_microcircuit", {"us_per_step": found, "scale": arguments.scale})


if __name__ == "__main__":
    main()
