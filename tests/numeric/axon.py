"""The numbers of emer/axon's own unit tests (axon/act_test.go, axon/basic_test.go, commit 774c01e1), and what a target
makes of models/axon/testnet.yaml.

Guarantees: functions that hold a target against them, within 1e-5: Axon's approximation of exp differs by up to 7e-6.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

import netloom

Array = npt.NDArray[np.float64]

ACTIVITY: dict[int, dict[str, dict[str, list[float]]]] = {
    40: {  # TestNetActShort
        "hidden": {"act": [0.6944009, 0, 0, 0], "g_e": [0.7366979, 0, 0, 0], "g_i": [0.24779804] * 4},
        "output": {"act": [0.55272156, 0, 0, 0], "g_e": [0.4743182, 0, 0, 0], "g_i": [0.21460174] * 4},
    },
    50: {  # TestNetAct: after the first and the fourth quarter of two trials
        "hidden": {"act": [0.6944439, 0, 0, 0], "g_e": [0.35238016, 0, 0, 0], "g_i": [0.15478326] * 4},
        "output": {"act": [0.55552065, 0, 0, 0], "g_e": [0.35870183, 0, 0, 0], "g_i": [0.20974194] * 4},
    },
    200: {
        "hidden": {"act": [0.56933826, 0, 0, 0], "g_e": [0.43519318, 0, 0, 0], "g_i": [0.21780372] * 4},
        "output": {"act": [0.69444436, 0, 0, 0], "g_e": [0.8, 0, 0, 0], "g_i": [0.48570368] * 4},
    },
    250: {
        "hidden": {"act": [0, 0.46289298, 0, 0], "g_e": [0.011576458, 0.45270887, 0, 0], "g_i": [0.1974176] * 4},
        "output": {"act": [0, 0, 0, 0], "g_e": [0.014116121, 0.26705682, 0, 0], "g_i": [0.089714766] * 4},
    },
    400: {
        "hidden": {"act": [0, 0.56031764, 0, 0], "g_e": [0.0022698431, 0.5705052, 0, 0], "g_i": [0.2899328] * 4},
        "output": {"act": [0, 0.69444436, 0, 0], "g_e": [0, 0.8, 0, 0], "g_i": [0.43397403] * 4},
    },
}
INHIBITED: dict[int, dict[str, dict[str, list[float]]]] = {  # TestInhibAct
    50: {
        "hidden": {"act": [0] * 4, "g_e": [0.30250484, 0, 0, 0], "g_i": [0.46865422, 0, 0, 0]},
        "output": {"act": [0] * 4, "g_e": [0] * 4, "g_i": [0] * 4},
    },
    200: {
        "hidden": {"act": [0] * 4, "g_e": [0.46512103, 0, 0, 0], "g_i": [0.44725537, 0, 0, 0]},
        "output": {"act": [0.7936507, 0, 0, 0], "g_e": [0.8, 0, 0, 0], "g_i": [0.39994955] * 4},
    },
}
CALCIUM = {  # TestNetLearn: LearnCaP and LearnCaD of the active unit at the end of each trial
    ("hidden", "learn_ca_p"): [0.5500735, 0.5519808, 0.54200256, 0.5519518],
    ("hidden", "learn_ca_d"): [0.52224743, 0.49780282, 0.49890643, 0.50385964],
    ("output", "learn_ca_p"): [0.58267534, 0.56314445, 0.5760921, 0.57729626],
    ("output", "learn_ca_d"): [0.50602317, 0.4639777, 0.4770922, 0.47976217],
}
OUTPUT = {
    "dwt": [0.0055950927, 0.010907927, 0.010558605, 0.010816593],
    "wt": [0.5335216, 0.5650866, 0.56302404, 0.56454736],
}
LEARNED = {  # TestNetLearn, TestNetRLRate (with the hidden layer's own learning rates)
    0: {
        "dwt": [0.004471265, 0.0076135984, 0.006134646, 0.006948054],
        "wt": [0.5268025, 0.54555845, 0.5367433, 0.5415946],
    },
    1: {
        "dwt": [2.2356323e-07, 2.6165517e-05, 1.8274108e-05, 2.6021975e-05],
        "wt": [0.50000143, 0.500157, 0.5001098, 0.5001563],
    },
}
RATES = [
    [5.0000002e-05, 5.0000002e-05, 5.0000002e-05, 5.0000002e-05],
    [0.00018922218, 0.003436682, 5.0000002e-05, 5.0000002e-05],
    [5.0000002e-05, 0.00016346086, 0.0029788367, 5.0000002e-05],
    [5.0000002e-05, 5.0000002e-05, 0.00018306368, 0.0037452176],
]
TRIAL = 200


def close(found: object, expected: object) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def testnet(
    root: Path, target: str, duration: str, order: str = "reproducible", **settings: object
) -> netloom.RunResult:
    model = netloom.load(root / "models" / "axon" / "testnet.yaml", set=settings)
    return model.run(target, duration=duration, order=order)


testnet.__test__ = False  # type: ignore[attr-defined]


def trace(result: netloom.RunResult, population: str, variable: str) -> Array:
    """(steps, neurons), from step 1 on."""
    return np.asarray(result.traces(population, variable)[1], np.float64)


def check_activity(
    result: netloom.RunResult, expected: dict[int, dict[str, dict[str, list[float]]]], steps: int
) -> None:
    """What the layers hold after so many steps, up to `steps`."""
    for step, layers in expected.items():
        for layer, variables in layers.items() if step <= steps else ():
            for variable, values in variables.items():
                close(trace(result, layer, variable)[step - 1], values)


def learned(result: netloom.RunResult, projection: str, variable: str) -> Array:
    """(trials, synapses): what a synapse holds at the end of each trial."""
    (found,) = result.synapses(projection).values()
    return np.asarray(found.values[variable][1:], np.float64)


def check_learning(result: netloom.RunResult, rl_rate_on: int) -> None:
    """Four trials, each of a pattern of its own."""
    one = np.arange(4)
    for (layer, variable), values in CALCIUM.items():
        close(trace(result, layer, variable)[TRIAL - 1 :: TRIAL][one, one], values)
    for projection, expected in (("input_to_hidden", LEARNED[rl_rate_on]), ("hidden_to_output", OUTPUT)):
        for variable, values in expected.items():
            close(learned(result, projection, variable)[one, one], values)
    rates = trace(result, "hidden", "rl_rate")[TRIAL - 1 :: TRIAL]
    close(rates, RATES if rl_rate_on else np.ones((4, 4)))
