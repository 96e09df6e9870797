"""The figures of the library's pages, each made by running what it shows.

Assumes: matplotlib, a C compiler.
Guarantees: an SVG per name; a definition that no model here mentions raises Missing.
Does not: write anything but the figures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import matplotlib
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes

import netloom

MODELS: Final = Path(__file__).resolve().parents[2] / "models"

matplotlib.use("agg")
plt.rcParams.update({
    "svg.fonttype": "path",
    "svg.hashsalt": "netloom",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "lines.linewidth": 1.1,
    "axes.prop_cycle": plt.cycler(color=["#204a87", "#cc0000", "#4e9a06", "#c17d11"]),  # type: ignore[attr-defined]
})  # fmt: skip

DRIVES: Final[Mapping[str, tuple[str, str]]] = {
    "adex": ("I_e", "800 pA"),
    "alif": ("i_e", "0.03"),
    "eif": ("I_e", "200 pA"),
    "hodgkin_huxley": ("I_e", "10 uA/cm**2"),
    "if_delta": ("i", "0.002"),
    "izhikevich": ("i_e", "10 mV/ms"),
    "izhikevich_2007": ("I_e", "120 pA"),
    "lif": ("i_e", "180 pA"),
    "lif_cond_alpha": ("I_e", "320 pA"),
    "lif_cond_exp": ("I_e", "130 pA"),
    "lif_psc_alpha": ("I_e", "450 pA"),
    "lif_psc_exp": ("I_e", "450 pA"),
    "lif_psc_exp_2": ("I_e", "450 pA"),
    "qif": ("i_e", "80 pA"),
    "rulkov": ("i", "0.3"),
    "traub_miles": ("I_e", "500 pA"),
    "wang_buzsaki": ("I_e", "1 uA/cm**2"),
}
"""What the step of current is added to, and its size."""

SHOWN: Final[Mapping[str, tuple[str, ...]]] = {
    "adex": ("v", "w"),
    "alif": ("v", "b"),
    "hodgkin_huxley": ("v", "m", "h", "n"),
    "izhikevich": ("v", "u"),
    "izhikevich_2007": ("v", "u"),
    "rulkov": ("x", "y"),
    "traub_miles": ("v", "m", "h", "n"),
    "wang_buzsaki": ("v", "h", "n"),
}
"""The states in the figure, where they are more than v: the first on top, the others below."""

RASTERS: Final[Mapping[str, tuple[int, dict[str, Any]]]] = {
    "poisson": (40, {"rate": "20 Hz"}),
    "inhomogeneous_poisson": (40, {"rate": "20 Hz", "amplitude": "20 Hz", "frequency": "5 Hz"}),
    "spike_times": (
        3,
        {
            "times": [f"{t} ms" for t in (50, 100, 150, 200, 60, 62, 64, 250, 125)],
            "indices": [0, 0, 0, 0, 1, 1, 1, 1, 2],
        },
    ),
}
"""Neurons without a membrane: how many, with which parameters."""

START, STOP, END, DT = 50, 250, 300, 0.05
"""Of the step of current, and the step of the simulation, in ms."""


class Missing(Exception):
    """A definition of the library that has no figure."""


def neurons(names: Sequence[str], folder: Path) -> None:
    """The response of each neuron to a step of current, or its spikes."""
    missing = set(names) - set(DRIVES) - set(RASTERS)
    if missing:
        raise Missing(f"scripts/site/figures.py shows no neuron {sorted(missing)}")
    populations: dict[str, Any] = {}
    inputs: dict[str, Any] = {}
    record: list[Any] = []
    for name in names:
        size, params = RASTERS.get(name, (1, {}))
        populations[name] = {"neuron": f"library/neurons/{name}", "size": size, "params": params}
        record.append({"spikes": {"from": name}})
        if name in DRIVES:
            into, amplitude = DRIVES[name]
            step = {"amplitude": amplitude, "start": f"{START} ms", "stop": f"{STOP} ms"}
            inputs[name] = {"to": name, "current": {"into": into, "source": "library/currents/step", "params": step}}
            record.append({"trace": {"from": name, "variables": list(SHOWN.get(name, ("v",))), "members": "all"}})
    simulate = {"dt": f"{DT} ms", "duration": f"{END} ms", "seed": 1}
    model = {"language": 1, "populations": populations, "inputs": inputs, "simulate": simulate, "record": record}
    result = netloom.load(model).run()
    for name in names:
        if name in RASTERS:
            _raster(result, name, folder)
        else:
            _response(result, name, folder)


def _raster(result: netloom.RunResult, name: str, folder: Path) -> None:
    times, members = result.spikes(name)
    figure, axes = plt.subplots(figsize=(6, 2.2))
    axes.plot(times, members, "|", color="#204a87", markersize=6 if members.max() > 5 else 22)
    axes.set(xlabel="time (ms)", ylabel="neuron", xlim=(0, END), ylim=(-1, members.max() + 1))
    save(figure, folder, name)


def _response(result: netloom.RunResult, name: str, folder: Path) -> None:
    """Top: the membrane, with a line for each spike; below: other states, and the step of current."""
    first, *others = SHOWN.get(name, ("v",))
    figure, rows = plt.subplots(
        2 + bool(others), sharex=True, figsize=(6, 2.5 + 0.9 * bool(others)),
        height_ratios=[5, *([2.5] if others else []), 1],
    )  # fmt: skip
    t, values = result.traces(name, first)
    spikes = result.spikes(name)[0]
    rows[0].plot(t, values[:, 0])
    high = float(values.max())
    rows[0].plot(spikes, np.full(len(spikes), high + 0.08 * (high - float(values.min()))), "|", color="#cc0000")
    rows[0].set_ylabel(_label(first, "mV" if first == "v" and name not in ("alif", "if_delta") else ""))
    for other in others:
        rows[1].plot(t, result.traces(name, other)[1][:, 0], label=other)
    if len(others) > 1:
        rows[1].legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
    elif others:
        unit = {"adex": "pA", "izhikevich": "mV/ms", "izhikevich_2007": "pA"}.get(name, "")
        rows[1].set_ylabel(_label(others[0], unit))
    into, amplitude = DRIVES[name]
    rows[-1].plot([0, START, START, STOP, STOP, END], [0, 0, 1, 1, 0, 0], color="#888a85")
    rows[-1].set(xlabel="time (ms)", yticks=[], ylabel=into)
    rows[-1].text(1, 0.5, amplitude.replace("**", "^"), fontsize=8, transform=rows[-1].transAxes)
    if name == "rulkov":  # a map: every step is an iteration
        rows[-1].set_xlabel("iterations")
        rows[-1].set_xticks([t * DT for t in range(900, 2300, 200)], [str(t) for t in range(900, 2300, 200)])
        rows[0].set_xlim(900 * DT, 2200 * DT)
    save(figure, folder, name)


def _label(name: str, unit: str) -> str:
    return f"{name} ({unit})" if unit else name


CURRENTS: Final[Mapping[str, dict[str, Any]]] = {
    "dc": {"amplitude": "100 pA"},
    "from_file": {"values": [f"{x} pA" for x in (0, 50, 120, 80, 20, 100)], "every": "40 ms"},
    "gaussian_noise": {"mean": "100 pA", "std": "20 pA"},
    "ornstein_uhlenbeck": {"mean": "100 pA", "sigma": "30 pA", "tau": "10 ms"},
    "poisson_exp": {"weight": "20 pA", "rate": "500 Hz", "tau": "5 ms"},
    "sine": {"amplitude": "50 pA", "offset": "100 pA", "frequency": "10 Hz"},
    "step": {"amplitude": "100 pA", "start": "50 ms", "stop": "150 ms"},
}
"""Parameters of each current in its figure."""


def currents(names: Sequence[str], folder: Path) -> None:
    """Each current over time, for one or three neurons."""
    if missing := set(names) - set(CURRENTS):
        raise Missing(f"scripts/site/figures.py shows no current {sorted(missing)}")
    probe = {"inputs": {"i": {"unit": "pA"}}, "state": {"seen": "0 pA"}, "update": ["seen = i"]}
    inputs: dict[str, Any] = {}
    for name in names:
        current = {"into": "i", "source": f"library/currents/{name}", "params": CURRENTS[name]}
        inputs[name] = {"to": f"of_{name}", "current": current}
    model = {
        "language": 1,
        "neurons": {"probe": probe},
        "populations": {f"of_{name}": {"neuron": "probe", "size": 3} for name in names},
        "inputs": inputs,
        "simulate": {"dt": "0.1 ms", "duration": "240 ms", "seed": 1},
        "record": [{"trace": {"from": "all", "variables": ["seen"], "members": "all"}}],
    }
    result = netloom.load(model).run()
    for name in names:
        t, values = result.traces(f"of_{name}", "seen")
        figure, axes = plt.subplots(figsize=(6, 2.2))
        same = bool((values[:, :1] == values).all())
        for k in range(1 if same else 3):
            axes.plot(t, values[:, k], linewidth=0.6 if name == "gaussian_noise" else 1.0, alpha=1 if k == 0 else 0.6)
        given = ", ".join(f"{k} {v}" for k, v in CURRENTS[name].items() if isinstance(v, str))
        axes.set(xlabel="time (ms)", ylabel="current (pA)")
        if name == "dc":
            axes.set_ylim(0, 120)
        axes.set_title(given + ("" if same else "; three neurons"), fontsize=8, loc="right")
        save(figure, folder, name)


def optimizers(names: Sequence[str], folder: Path) -> None:
    """The training loss of a small network on digits by epoch, with each optimizer and its default parameters."""
    losses: dict[str, list[float]] = {}
    for name in names:
        model = {
            "language": 1,
            "network": {
                "inputs": {"image": {"shape": [64]}, "label": {"shape": [], "dtype": "int32"}},
                "layers": [{"dense": {"units": 32, "activation": "relu"}}, {"dense": {"name": "logits", "units": 10}}],
            },
            "train": {
                "data": {
                    "file": "data/digits.npz",
                    "inputs": {"image": "flat", "label": "labels"},
                    "scale": {"image": "1 / 16"},
                },
                "loss": {"softmax_cross_entropy": {"logits": "logits", "target": "label"}},
                "optimizer": {name: {}},
                "batch": 64,
                "epochs": 30,
                "seed": 1,
            },
        }
        fitted = netloom.load(model, folder=MODELS).fit()
        losses[name] = [row["loss"] for row in fitted.history()]
    for name in names:
        figure, axes = plt.subplots(figsize=(6, 2.6))
        for other, loss in losses.items():
            shown = {"color": "#204a87", "linewidth": 2} if other == name else {"color": "#c8ccd2", "linewidth": 0.8}
            axes.plot(range(1, 31), loss, zorder=2 if other == name else 1, **shown)  # type: ignore[arg-type]
        axes.set(xlabel="epoch", ylabel="loss", yscale="log")
        axes.set_title(f"{name}; the others in grey", fontsize=8, loc="right")
        save(figure, folder, name)


PAIRED: Final[Mapping[str, float]] = {
    "stdp_additive": 0.5,
    "stdp_multiplicative": 0.5,
    "stdp_nearest": 0.5,
    "stdp_triplet": 1.0,
    "stdp_triplet_hippocampal": 1.0,
}
"""Plastic synapses, with the weight at the start."""

OTHERS: Final[Mapping[str, Mapping[str, Any]]] = {
    "static": {"w": "100 pA"},
    "stochastic_release": {"w": "100 pA"},
    "tsodyks_markram": {"w": "200 pA"},
    "gap_junction": {"g": "5 nS"},
    "graded": {"w": "100 pA"},
    "nmda": {"g": "1 nS"},
}
"""The parameters of the other synapses in their figures."""


def synapses(names: Sequence[str], folder: Path) -> None:
    """What arrives at the target of a synapse, or how pairs of spikes change its weight."""
    if missing := set(names) - set(PAIRED) - set(OTHERS):
        raise Missing(f"scripts/site/figures.py shows no synapse {sorted(missing)}")
    _transmission(folder)
    for name in PAIRED:
        _plasticity(name, folder)


def _transmission(folder: Path) -> None:
    """Synapses that do not learn: their sources spike, or have a potential that changes, and the targets record."""
    spikes = [20, 40, 60, 80, 100, 120, 140, 160, 260]
    cell = {"neuron": "library/neurons/izhikevich_2007", "size": 1}
    one = {"connect": {"one_to_one": {}}}
    probe = {"inputs": {"i": {"unit": "pA", "decay": "5 ms"}}, "state": {"seen": "0 pA"}, "update": ["seen = i"]}
    held = {
        "params": {"at": "-60 mV"},
        "inputs": {"i": {"unit": "pA"}},
        "state": {"v": "-60 mV", "seen": "0 pA"},
        "update": ["v = at", "seen = i"],
    }
    populations: dict[str, Any] = {
        "source": {
            "neuron": "library/neurons/spike_times",
            "size": 1,
            "params": {"times": [f"{t} ms" for t in spikes], "indices": [0] * len(spikes)},
        },
        "gap_a": cell,
        "gap_b": cell,
        "graded_to": {"neuron": "held", "size": 1},
        "nmda_to": {"neuron": "held", "size": 3, "params": {"at": ["-70 mV", "-40 mV", "-20 mV"]}},
    }
    projections: dict[str, Any] = {}
    for name in ("static", "stochastic_release", "tsodyks_markram"):
        populations[name] = {"neuron": "probe", "size": 1}
        projections[name] = {"from": "source", "to": name, **one}
    projections["gap_junction"] = {"from": "gap_a", "to": "gap_b", **one}
    projections["back"] = {"from": "gap_b", "to": "gap_a", **one}
    projections["graded"] = {"from": "gap_a", "to": "graded_to", **one}
    projections["nmda"] = {"from": "source", "to": "nmda_to", "connect": {"all_to_all": {}}}
    for name, projection in projections.items():
        kind = "gap_junction" if name == "back" else name
        projection |= {"synapse": f"library/synapses/{kind}", "params": OTHERS[kind], "deliver": {"into": "i"}}
    step = {"amplitude": "150 pA", "start": "50 ms", "stop": "250 ms"}
    model = {
        "language": 1,
        "neurons": {"probe": probe, "held": held},
        "populations": populations,
        "projections": projections,
        "inputs": {
            "step": {"to": "gap_a", "current": {"into": "I_e", "source": "library/currents/step", "params": step}},
        },
        "simulate": {"dt": "0.1 ms", "duration": "300 ms", "seed": 2},
        "record": [
            {"trace": {"from": ["static", "stochastic_release", "tsodyks_markram", "graded_to", "nmda_to"],
                       "variables": ["seen"], "members": "all"}},
            {"trace": {"from": ["gap_a", "gap_b"], "variables": ["v"], "members": "all"}},
        ],
    }  # fmt: skip
    _show_transmission(netloom.load(model).run(), spikes, folder)


def _show_transmission(result: netloom.RunResult, spikes: Sequence[int], folder: Path) -> None:
    t = result.traces("static", "seen")[0]
    for name in ("static", "stochastic_release", "tsodyks_markram", "nmda"):
        values = result.traces("nmda_to" if name == "nmda" else name, "seen")[1]
        figure, axes = plt.subplots(figsize=(6, 2.4))
        for k, v in enumerate((-70, -40, -20) if name == "nmda" else (None,)):
            axes.plot(t, values[:, k], label=f"target held at {v} mV")
        if name == "nmda":
            axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5))
        top = float(values.max())
        axes.plot(spikes, np.full(len(spikes), 1.1 * top), "|", color="#cc0000")
        decays = "" if name == "nmda" else "; the input decays with 5 ms"
        axes.set_title(f"spikes of the source in red{decays}", fontsize=8, loc="right")
        axes.set(xlabel="time (ms)", ylabel="current (pA)")
        save(figure, folder, name)
    figure, axes = plt.subplots(figsize=(6, 2.4))
    for name, says in (("gap_a", "driven by a step of current"), ("gap_b", "coupled to it")):
        axes.plot(t, result.traces(name, "v")[1][:, 0], label=says)
    axes.legend(frameon=False, fontsize=8)
    axes.set(xlabel="time (ms)", ylabel="v (mV)")
    save(figure, folder, "gap_junction")
    figure, rows = plt.subplots(2, sharex=True, figsize=(6, 3))
    rows[0].plot(t, result.traces("gap_a", "v")[1][:, 0])
    rows[0].set_ylabel("v of the source (mV)")
    rows[1].plot(t, result.traces("graded_to", "seen")[1][:, 0], color="#cc0000")
    rows[1].set(xlabel="time (ms)", ylabel="current (pA)")
    save(figure, folder, "graded")


def _plasticity(name: str, folder: Path) -> None:
    """The change of the weight by 60 pairs of spikes: against the time from source to target, at 1 Hz and 20 Hz."""
    apart = np.arange(-80, 81, 4) if "triplet" not in name else np.arange(-24, 25, 2)
    figure, axes = plt.subplots(figsize=(6, 2.8))
    start = PAIRED[name]
    for hertz in (1, 20) if "triplet" in name else (1,):
        changed = _paired(name, apart, hertz, 60)
        axes.plot(apart, 100 * (changed - start) / start, "o-", markersize=3, label=f"{hertz} Hz")
    axes.axhline(0, color="#888a85", linewidth=0.6)
    axes.axvline(0, color="#888a85", linewidth=0.6)
    axes.set(xlabel="spike of the target after that of the source (ms)", ylabel="change of the weight (%)")
    title = "60 pairs" + ("" if "triplet" in name else " at 1 Hz")
    axes.set_title(f"{title}, from a weight of {start:g}", fontsize=8, loc="right")
    if "triplet" in name:
        axes.legend(frameon=False, fontsize=8)
    save(figure, folder, name)


def _paired(name: str, apart: np.ndarray, hertz: int, pairs: int) -> np.ndarray:
    """The weight after `pairs` pairs of spikes, for each time (ms) from the source's spike to the target's."""
    at = 100 + np.arange(pairs) * 1000 // hertz
    n = len(apart)
    pre = {"times": [f"{t} ms" for t in at for _ in range(n)], "indices": list(range(n)) * pairs}
    post = {"times": [f"{t + d} ms" for t in at for d in apart.tolist()], "indices": list(range(n)) * pairs}
    parrot = {
        "inputs": {"go": {}, "s": {}},
        "state": {"seen": 0, "goes": 0},
        "update": ["seen = s", "goes = go"],
        "spike": {"when": "goes > 0.5", "reset": []},
    }
    one = {"connect": {"one_to_one": {}}}
    given = "library/neurons/spike_times"
    init = {"w": PAIRED[name]}
    model = {
        "language": 1,
        "neurons": {"parrot": parrot},
        "populations": {
            "pre": {"neuron": given, "size": n, "params": pre},
            "post_times": {"neuron": given, "size": n, "params": post},
            "post": {"neuron": "parrot", "size": n},
        },
        "projections": {
            # the parrots spike one step late, and so does the spike of the source arrive at the synapse
            "go": {"from": "post_times", "to": "post", **one, "deliver": {"into": "go", "weight": 1}},
            "learns": {"from": "pre", "to": "post", **one, "synapse": f"library/synapses/{name}", "init": init,
                       "deliver": {"into": "s"}, "delay": "1 ms"},
        },
        "simulate": {"dt": "1 ms", "duration": f"{int(at[-1]) + 200} ms", "seed": 1},
        "record": [{"synapses": {"from": "learns", "variables": ["w"]}}],
    }  # fmt: skip
    import h5py

    result = netloom.load(model).run()
    with h5py.File(result.folder / "synapses.h5") as file:
        return np.asarray(file["learns/pre->post/w"][-1], np.float64)


def save(figure: Any, folder: Path, name: str) -> None:
    """Write a figure as an SVG that is the same for the same data."""
    for axes in figure.axes:
        _thin(axes)
    folder.mkdir(parents=True, exist_ok=True)
    figure.align_ylabels()
    figure.savefig(folder / f"{name}.svg", bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)


def _thin(axes: Axes) -> None:
    """Lines of at most about 1,500 points: of each stretch, the lowest and the highest."""
    for line in axes.get_lines():
        x, y = np.asarray(line.get_xdata()), np.asarray(line.get_ydata())
        if len(x) <= 1500 or line.get_linestyle() == "None":
            continue
        kept = [k for part in np.array_split(np.arange(len(x)), 750) for k in _ends(part, y)]
        line.set_data(x[kept], y[kept])


def _ends(part: np.ndarray, y: np.ndarray) -> list[int]:
    return sorted({int(part[np.argmin(y[part])]), int(part[np.argmax(y[part])])})
