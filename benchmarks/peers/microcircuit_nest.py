"""The microcircuit in NEST: builds the network, simulates it, prints one JSON object (see bench_microcircuit.py).

Usage: microcircuit_nest.py SECONDS SCALE

iaf_psc_exp on the 0.1 ms grid; a Poisson generator per population gives every neuron a train of its own. NEST redraws
what a distribution gives below its bounds where models/microcircuit.yaml cuts it. It computes in float64 only.
"""

from __future__ import annotations

import json
import sys
import time

import microcircuit_network as net
import nest


def main() -> None:
    seconds, scale = float(sys.argv[1]), float(sys.argv[2])
    nest.set_verbosity("M_ERROR")
    nest.ResetKernel()
    nest.set(resolution=net.DT, local_num_threads=1, rng_seed=55)
    cell = {k: v for k, v in net.CELL.items() if k != "tau_syn"}
    cell |= {"tau_syn_ex": net.CELL["tau_syn"], "tau_syn_in": net.CELL["tau_syn"]}
    populations, recorders = [], []
    for i, n in enumerate(net.sizes(scale)):
        v = nest.random.normal(net.V_MEAN[i], net.V_STD[i])
        cells = nest.Create("iaf_psc_exp", n, {**cell, "V_m": v, "I_e": net.current(i, scale)})
        noise = nest.Create("poisson_generator", params={"rate": net.external_rate(i, scale)})
        nest.Connect(noise, cells, "all_to_all", {"weight": net.external_weight(scale), "delay": net.DT})
        recorder = nest.Create("spike_recorder", params={"start": 1000.0 * net.WARM_UP})
        nest.Connect(cells, recorder)
        populations.append(cells)
        recorders.append(recorder)
    for s in net.projections(scale):
        low, high = (0.0, float("inf")) if s.weight > 0 else (float("-inf"), 0.0)
        nest.Connect(
            populations[s.source],
            populations[s.target],
            {"rule": "fixed_total_number", "N": s.number},
            {
                "weight": nest.math.redraw(nest.random.normal(s.weight, s.weight_std), low, high),
                # A delay is rounded to the grid: from half a step below the least one on, as rounding does.
                "delay": nest.math.redraw(nest.random.normal(s.delay, s.delay_std), net.DT / 2, 1e3),
            },
        )
    nest.Prepare()
    nest.Run(1000.0 * net.WARM_UP)
    started = time.process_time()
    nest.Run(1000.0 * seconds)
    cpu = time.process_time() - started
    nest.Cleanup()
    rates = {
        f"rate_{name}": recorder.n_events / len(cells) / seconds
        for name, recorder, cells in zip(net.POPULATIONS, recorders, populations, strict=True)
    }
    print(json.dumps({"cpu_seconds_per_second": cpu / seconds, **rates}))


if __name__ == "__main__":
    main()
