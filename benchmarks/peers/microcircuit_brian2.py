"""The microcircuit as a Brian2 C++ standalone program: builds it (see bench_microcircuit.py).

Usage: microcircuit_brian2.py FOLDER SECONDS SCALE   builds FOLDER/main; prints one JSON object about the build.
The built program prints `run_cpu_seconds X` of the measured run alone, without connecting and warming up.

float32, one thread, exact integration, PoissonInput (a binomial of the same mean) for the
background. All cells are one NeuronGroup and all projections one Synapses, whose pairs are drawn
here with numpy (fixed total numbers, with replacement): it is the fastest way to write this in
Brian2 (55 Synapses objects mean 55 code objects, queues and passes per step). Delays are cut at one
step and rounded to the grid by Brian2.
"""

from __future__ import annotations

import json
import resource
import sys

import microcircuit_network as net
import numpy as np
from brian2 import (
    Hz,
    Network,
    NeuronGroup,
    PoissonInput,
    SpikeMonitor,
    Synapses,
    defaultclock,
    device,
    ms,
    mV,
    pA,
    pF,
    prefs,
    second,
    seed,
    set_device,
)

EQUATIONS = """
dv/dt = (E_L - v) / tau_m + (I_syn + I_e) / C_m : volt (unless refractory)
dI_syn/dt = -I_syn / tau_syn : amp
I_e : amp (constant)
"""
UNITS = {"E_L": mV, "V_th": mV, "V_reset": mV, "C_m": pF, "tau_m": ms, "tau_syn": ms, "t_ref": ms}


def main() -> None:
    folder, seconds, scale = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
    set_device("cpp_standalone", build_on_run=False)
    prefs.core.default_float_dtype = np.float32
    defaultclock.dt = net.DT * ms
    seed(1)
    random = np.random.default_rng(55)

    constants = {name: value * UNITS[name] for name, value in net.CELL.items()}
    n = net.sizes(scale)
    first = np.concatenate([[0], np.cumsum(n)])
    cells = NeuronGroup(
        int(first[-1]),
        EQUATIONS,
        threshold="v >= V_th",
        reset="v = V_reset",
        refractory=net.CELL["t_ref"] * ms,
        method="exact",
        namespace=constants,
    )
    v = [random.normal(net.V_MEAN[i], net.V_STD[i], n[i]) for i in range(8)]
    cells.v = np.concatenate(v) * mV
    cells.I_e = np.repeat([net.current(i, scale) for i in range(8)], n) * pA
    weight = net.external_weight(scale) * pA
    noise = [
        PoissonInput(
            cells[int(first[i]) : int(first[i + 1])],
            "I_syn",
            N=round(net.EXTERNAL[i] * scale),
            rate=net.RATE * Hz,
            weight=weight,
        )
        for i in range(8)
    ]
    columns: dict[str, list[np.ndarray]] = {"i": [], "j": [], "w": [], "delay": []}
    for s in net.projections(scale):
        columns["i"].append(random.integers(first[s.source], first[s.source + 1], s.number))
        columns["j"].append(random.integers(first[s.target], first[s.target + 1], s.number))
        strength = random.normal(s.weight, s.weight_std, s.number)
        columns["w"].append(np.where(strength * s.weight < 0, 0, strength))
        columns["delay"].append(np.maximum(random.normal(s.delay, s.delay_std, s.number), net.DT))
    drawn = {name: np.concatenate(parts) for name, parts in columns.items()}
    order = np.argsort(drawn["i"], kind="stable")  # synapses of one neuron side by side
    synapses = Synapses(cells, cells, "w : amp", on_pre="I_syn_post += w")
    synapses.connect(i=drawn["i"][order], j=drawn["j"][order])
    synapses.w = drawn["w"][order] * pA
    synapses.delay = drawn["delay"][order] * ms
    monitor = SpikeMonitor(cells)

    network = Network(cells, synapses, monitor, *noise)
    network.run(net.WARM_UP * second)
    device.insert_code("main", "const std::clock_t cpu_started = std::clock();")
    network.run(seconds * second)
    device.insert_code(
        "main",
        'std::cout << "run_cpu_seconds " << double(std::clock() - cpu_started) / CLOCKS_PER_SEC << std::endl;',
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    device.build(directory=folder, compile=True, run=False, debug=False, clean=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    compiler = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    files = {name: str(device.get_array_filename(monitor.variables[name])) for name in ("i", "t")}
    print(json.dumps({"compiler_cpu_seconds": compiler, **files, "sizes": n}))


if __name__ == "__main__":
    main()
