"""The cortical microcircuit of Potjans & Diesmann (2014) in numbers, for the peers of bench_microcircuit.py.

Assumes: both scales equal (`scale`), as in models/microcircuit.yaml at its defaults.
Guarantees: the numbers of models/microcircuit.yaml: sizes, fixed total numbers of synapses, normal weights (pA) and
delays (ms), rates of the background (Hz) and currents (pA) that make up for lost in-degrees.
Does not: build a network. Needs the standard library only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

POPULATIONS = ("L23E", "L23I", "L4E", "L4I", "L5E", "L5I", "L6E", "L6I")
FULL_SIZES = (20683, 5834, 21915, 5479, 4850, 1065, 14395, 2948)
PROBABILITIES = (  # rows: targets, columns: sources
    (0.1009, 0.1689, 0.0437, 0.0818, 0.0323, 0.0, 0.0076, 0.0),
    (0.1346, 0.1371, 0.0316, 0.0515, 0.0755, 0.0, 0.0042, 0.0),
    (0.0077, 0.0059, 0.0497, 0.1350, 0.0067, 0.0003, 0.0453, 0.0),
    (0.0691, 0.0029, 0.0794, 0.1597, 0.0033, 0.0, 0.1057, 0.0),
    (0.1004, 0.0622, 0.0505, 0.0057, 0.0831, 0.3726, 0.0204, 0.0),
    (0.0548, 0.0269, 0.0257, 0.0022, 0.0600, 0.3158, 0.0086, 0.0),
    (0.0156, 0.0066, 0.0211, 0.0166, 0.0572, 0.0197, 0.0396, 0.2252),
    (0.0364, 0.0010, 0.0034, 0.0005, 0.0277, 0.0080, 0.0658, 0.1443),
)
EXTERNAL = (1600, 1500, 2100, 1900, 2000, 1900, 2900, 2100)
LOST = (42.462984, 164.340101, 165.215427, 168.170545, 183.421131, 221.834785, 64.124993, 224.796668)
V_MEAN = (-68.28, -63.16, -63.33, -63.45, -63.11, -61.66, -66.72, -61.43)
V_STD = (5.36, 4.57, 4.74, 4.94, 4.94, 4.55, 5.46, 4.48)
PSC, G, RATE = 87.808493529, -4.0, 8.0
CELL = {"E_L": -65.0, "V_th": -50.0, "V_reset": -65.0, "C_m": 250.0, "tau_m": 10.0, "tau_syn": 0.5, "t_ref": 2.0}
"""mV, pF, ms."""
DT = 0.1
WARM_UP = 0.5
"""Biological seconds before what is measured."""


@dataclass(frozen=True)
class Synapses:
    """One projection: how many, and the normal distributions of weight (pA) and delay (ms, at least DT)."""

    source: int
    target: int
    number: int
    weight: float
    weight_std: float
    delay: float
    delay_std: float


def sizes(scale: float) -> list[int]:
    return [round(n * scale) for n in FULL_SIZES]


def external_weight(scale: float) -> float:
    return PSC / math.sqrt(scale)


def external_rate(population: int, scale: float) -> float:
    """Hz, of all external synapses of one neuron together."""
    return EXTERNAL[population] * RATE * scale


def current(population: int, scale: float) -> float:
    return (1.0 - math.sqrt(scale)) * LOST[population]


def projections(scale: float) -> list[Synapses]:
    """All pairs with a probability above 0."""
    n = sizes(scale)
    found = []
    for source in range(8):
        for target in range(8):
            p = PROBABILITIES[target][source]
            if p == 0:
                continue
            pairs = float(n[source] * n[target])
            number = round(math.log(1 - p) / math.log((pairs - 1) / pairs))
            excitatory = source % 2 == 0
            weight = PSC / math.sqrt(scale) * (1.0 if excitatory else G)
            if (source, target) == (2, 0):
                weight *= 2
            delay = 1.5 if excitatory else 0.75
            found.append(Synapses(source, target, number, weight, 0.1 * abs(weight), delay, 0.5 * delay))
    return found
