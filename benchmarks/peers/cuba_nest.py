"""cuba in NEST: builds the network, simulates it, prints one JSON object (see bench_cuba.py).

Usage: cuba_nest.py SECONDS

The network is models/cuba.yaml. NEST's inputs are currents: with C_m = 20 pF and tau_m = 20 ms a
current of 1 pA acts as a conductance-like input of 1 mV does there, so that weights keep their
numbers. NEST computes in float64 only.
"""

from __future__ import annotations

import json
import sys
import time

import nest


def main() -> None:
    seconds = float(sys.argv[1])
    nest.set_verbosity("M_ERROR")
    nest.ResetKernel()
    nest.set(resolution=0.1, local_num_threads=1, rng_seed=1)
    cell = {
        "tau_m": 20.0,
        "C_m": 20.0,
        "tau_syn_ex": 5.0,
        "tau_syn_in": 10.0,
        "E_L": -49.0,
        "V_th": -50.0,
        "V_reset": -60.0,
        "t_ref": 5.0,
        "V_m": nest.random.uniform(-60.0, -50.0),
    }
    exc = nest.Create("iaf_psc_exp", 3200, params=cell)
    inh = nest.Create("iaf_psc_exp", 800, params=cell)
    recorder = nest.Create("spike_recorder")
    rule = {"rule": "pairwise_bernoulli", "p": 0.02}
    for source, weight in ((exc, 1.62), (inh, -9.0)):
        nest.Connect(source, exc + inh, rule, {"weight": weight, "delay": 0.1})
        nest.Connect(source, recorder)
    nest.Prepare()
    started = time.process_time()
    nest.Run(1000.0 * seconds)
    cpu = time.process_time() - started
    nest.Cleanup()
    rate = recorder.n_events / 4000 / seconds
    print(json.dumps({"cpu_seconds_per_second": cpu / seconds, "rate_hz": rate}))


if __name__ == "__main__":
    main()
