"""STDP of Song, Miller & Abbott as a Brian2 C++ standalone program: builds it (see bench_stdp.py).

Usage: stdp_brian2.py FOLDER SECONDS   builds FOLDER/main; prints one JSON object about the build.
The built program prints `run_cpu_seconds X` of the network's run alone, without building synapses.

The network is models/stdp.yaml as Brian2's own example writes it: event-driven traces per synapse, Euler steps,
float32, one thread.
"""

from __future__ import annotations

import json
import resource
import sys

import numpy as np
from brian2 import (
    Hz,
    NeuronGroup,
    PoissonGroup,
    SpikeMonitor,
    Synapses,
    defaultclock,
    device,
    ms,
    mV,
    prefs,
    run,
    second,
    seed,
    set_device,
)

EQUATIONS = """
dv/dt = (ge * (e_exc - v) + v_rest - v) / tau_m : volt
dge/dt = -ge / tau_e : 1
"""
SYNAPSES = """
w : 1
dx/dt = -x / tau_pre : 1 (event-driven)
dy/dt = -y / tau_post : 1 (event-driven)
"""
ON_PRE = """
ge += w
x += a_pre
w = clip(w + y, 0, w_max)
"""
ON_POST = """
y += a_post
w = clip(w + x, 0, w_max)
"""
W_MAX = 0.01
CONSTANTS = {
    "tau_m": 10 * ms,
    "tau_e": 5 * ms,
    "v_rest": -74 * mV,
    "e_exc": 0 * mV,
    "v_thresh": -54 * mV,
    "v_reset": -60 * mV,
    "tau_pre": 20 * ms,
    "tau_post": 20 * ms,
    "a_pre": 0.01 * W_MAX,
    "a_post": -0.0105 * W_MAX,
    "w_max": W_MAX,
}


def main() -> None:
    folder, seconds = sys.argv[1], float(sys.argv[2])
    set_device("cpp_standalone", build_on_run=False)
    prefs.core.default_float_dtype = np.float32
    defaultclock.dt = 0.1 * ms
    seed(1)
    source = PoissonGroup(1000, rates=15 * Hz)
    cell = NeuronGroup(1, EQUATIONS, threshold="v > v_thresh", reset="v = v_reset", method="euler", namespace=CONSTANTS)
    cell.v = -74 * mV
    plastic = Synapses(
        source, cell, SYNAPSES, on_pre=ON_PRE, on_post=ON_POST, delay={"pre": 0.1 * ms}, namespace=CONSTANTS
    )
    plastic.connect()
    plastic.w = "rand() * w_max"
    monitor = SpikeMonitor(cell)

    device.insert_code("before_network_run", "const std::clock_t cpu_started = std::clock();")
    device.insert_code(
        "after_network_run",
        'std::cout << "run_cpu_seconds " << double(std::clock() - cpu_started) / CLOCKS_PER_SEC << std::endl;',
    )
    run(seconds * second, namespace=CONSTANTS)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    device.build(directory=folder, compile=True, run=False, debug=False, clean=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    compiler = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    files = {
        "spikes": str(device.get_array_filename(monitor.variables["N"])),
        "weights": str(device.get_array_filename(plastic.variables["w"])),
    }
    print(json.dumps({"compiler_cpu_seconds": compiler, "files": files}))


if __name__ == "__main__":
    main()
