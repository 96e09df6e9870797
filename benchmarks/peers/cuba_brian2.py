"""cuba as a Brian2 C++ standalone program: builds it, or runs the built one (see bench_cuba.py).

Usage: cuba_brian2.py FOLDER SECONDS   builds FOLDER/main; prints one JSON object about the build.
The built program prints `run_cpu_seconds X` of the network's run alone, without building synapses.

The network is models/cuba.yaml: Vogels & Abbott (2005), inhibitory weight -9 mV, float32, one
thread, exact integration, spikes of every neuron recorded.
"""

from __future__ import annotations

import json
import resource
import sys

import numpy as np
from brian2 import (
    NeuronGroup,
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
dv/dt = (v_rest - v + ge + gi) / tau_m : volt (unless refractory)
dge/dt = -ge / tau_e : volt
dgi/dt = -gi / tau_i : volt
"""
CONSTANTS = {
    "tau_m": 20 * ms,
    "tau_e": 5 * ms,
    "tau_i": 10 * ms,
    "v_rest": -49 * mV,
    "v_thresh": -50 * mV,
    "v_reset": -60 * mV,
    "w_e": 1.62 * mV,
    "w_i": -9 * mV,
}


def main() -> None:
    folder, seconds = sys.argv[1], float(sys.argv[2])
    set_device("cpp_standalone", build_on_run=False)
    prefs.core.default_float_dtype = np.float32
    defaultclock.dt = 0.1 * ms
    seed(1)

    n_exc, n_inh = 3200, 800
    cells = NeuronGroup(
        n_exc + n_inh,
        EQUATIONS,
        threshold="v > v_thresh",
        reset="v = v_reset",
        refractory=5 * ms,
        method="exact",
        namespace=CONSTANTS,
    )
    cells.v = "v_reset + rand() * (v_thresh - v_reset)"
    excitation = Synapses(cells[:n_exc], cells, on_pre="ge += w_e", delay=0.1 * ms, namespace=CONSTANTS)
    excitation.connect(p=0.02)
    inhibition = Synapses(cells[n_exc:], cells, on_pre="gi += w_i", delay=0.1 * ms, namespace=CONSTANTS)
    inhibition.connect(p=0.02)
    monitor = SpikeMonitor(cells)

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
    # The spike count is in a file of the program's own; its name is known only here.
    spikes = device.get_array_filename(monitor.variables["N"])
    print(json.dumps({"compiler_cpu_seconds": compiler, "spikes_file": str(spikes)}))


if __name__ == "__main__":
    main()
