"""Writes multi_area.npz, the table of the 64,516 projections of models/multi_area_structure.yaml, beside this file.

Assumes: nothing.
Guarantees: the same bytes on every run (own generator, no time stamps in the archive). The numbers have the structure
of the multi-area model of Schmidt et al. (2018): 32 areas of 8 populations (TH has no layer 4: 254 in all), connections
that become rarer, and delays that grow, with the distance of the areas. They are not that model's data.
Does not: scale.

Arrays, (254, 254), a row per target and a column per source, populations area by area (L23E, L23I, L4E, L4I, L5E, L5I,
L6E, L6I): `number` uint8 (connections), `weight` float32 (pA), `delay` float64 (ms, multiples of 0.1).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from fixed_npz import write_npz

AREAS = 32
WITHOUT_LAYER_4 = 31


def populations() -> list[tuple[int, int, bool]]:
    """(area, layer, excitatory) of every population."""
    return [
        (area, layer, excitatory)
        for area in range(AREAS)
        for layer in range(4)
        if not (area == WITHOUT_LAYER_4 and layer == 1)
        for excitatory in (True, False)
    ]


def main() -> None:
    rng = np.random.default_rng(2018)
    place = rng.uniform(0, 40, (AREAS, 2))  # mm
    all_of = populations()
    area = np.array([a for a, _, _ in all_of])
    layer = np.array([x for _, x, _ in all_of])
    excitatory = np.array([e for _, _, e in all_of])
    apart = np.linalg.norm(place[:, None] - place[None], axis=2)[np.ix_(area, area)]
    same = area[:, None] == area[None]
    near = np.exp(-apart / 11.4) * (1 + 0.3 * (layer[:, None] != layer[None]))
    number = np.where(same, rng.integers(4, 13, apart.shape), 1 + np.floor(4 * near)).astype(np.uint8)
    spread = rng.normal(1, 0.1, apart.shape)
    weight = np.round(np.where(excitatory[None], 87.8, -351.2) * spread, 1).astype(np.float32)
    local = np.where(excitatory[None], 1.5, 0.8)
    delay = np.round(np.where(same, local, 1 + apart / 3.5), 1)
    arrays = {"number": number, "weight": weight, "delay": delay}
    write_npz(Path(__file__).with_name("multi_area.npz"), arrays)


if __name__ == "__main__":
    main()
