"""The models of constructs.py on a target: all results of a run, and the comparison of two targets.

Assumes: a folder to write into; the requested backends exist.
Guarantees: all results are compared: records, state, weights, synapses, connections.
Does not: use the runner (tests of result files compare those).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from backends.protocol import Instance
from backends.registry import backend
from compiler.frontend.load import load_model
from compiler.ir.level0.model import Model
from compiler.ir.level2.program import Merged
from compiler.ir.space import Role
from compiler.passes.pipeline.lower import lower
from tests.constructs import CONSTRUCTS, write_files

Array = npt.NDArray[Any]


def write_construct(name: str, folder: Path, precision: str, order: str = "bitwise") -> Path:
    """The model file of one construct, and its data files."""
    write_files(folder)
    numerics = f"{{precision: {precision}, order: {order}}}"
    text = CONSTRUCTS[name]
    text = text.replace("NUMERICS", numerics) if "NUMERICS" in text else f"{text}numerics: {numerics}\n"
    path = folder / "model.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def construct(name: str, folder: Path, precision: str, order: str = "bitwise") -> Model:
    return load_model(write_construct(name, folder, precision, order), {})


def lowered(model: Model, target: str) -> Merged:
    return lower(model, backend(target).capabilities, verify=True).merged


def results(model: Model, folder: Path, target: str) -> dict[str, Array]:
    """All results of a run: the contents of its records (spikes in order of time and neuron), and the final state,
    weights, synapses and connections."""
    chosen = backend(target)
    merged = lowered(model, target)
    assert model.simulate is not None
    instance = chosen.load(chosen.build(merged, folder / target, {}), merged, model.simulate.seed)
    steps = model.simulate.warmup + model.simulate.steps
    found = _records(instance, merged, steps)
    kept = (Role.STATE, Role.WEIGHT, Role.SYNAPSE, Role.CONST)
    return found | {a.name: instance.read(a.name) for a in merged.arrays if a.role in kept}


def _records(instance: Instance, merged: Merged, steps: int) -> dict[str, Array]:
    counters = [a.name for a in merged.arrays if a.role is Role.RECORD and a.name.endswith("'used")]
    width = {a.name: int(np.prod(a.shape[1:])) for a in merged.arrays}
    blocks: dict[str, list[Array]] = {c.removesuffix("'used"): [] for c in counters}
    done = 0
    while done < steps:
        ran = instance.run("step", done + 1, steps - done)
        assert ran > 0
        done += ran
        for name, found in blocks.items():
            used = int(instance.read(f"{name}'used")[0])
            found.append(instance.read(name)[: used * width[name]].reshape(used, width[name]))
            instance.write(f"{name}'used", np.zeros(1, np.int64))
    all_of = {name: np.concatenate(found) for name, found in blocks.items()}
    return {n: v[np.lexsort((v[:, 1], v[:, 0]))] if n.endswith("'spikes'record") else v for n, v in all_of.items()}


def compare(name: str, ours: dict[str, Array], theirs: dict[str, Array]) -> None:
    """Bitwise equality of nontrivial results: neurons spiked, and records vary."""
    assert ours.keys() == theirs.keys()
    different = [n for n in ours if not np.array_equal(ours[n], theirs[n], equal_nan=True)]
    assert not different, f"{name}: {different}"
    spikes = [v for n, v in ours.items() if n.endswith("'spikes'record")]
    assert sum(len(v) for v in spikes) > 5, name
    traces = [v for n, v in ours.items() if "'record." in n and v.size > 1]
    assert np.mean([np.ptp(v) > 0 for v in traces]) > 0.6, name
    assert all(np.all(np.isfinite(v)) for v in traces), name


def stored_results(folder: Path) -> dict[str, Array]:
    """Every data set of every HDF5 file of a run directory."""
    import h5py

    found: dict[str, Array] = {}
    for path in sorted(folder.glob("*.h5")):
        with h5py.File(path) as file:

            def keep(name: str, item: Any, stem: str = path.stem) -> None:
                if isinstance(item, h5py.Dataset):
                    found[f"{stem}/{name}"] = item[()]

            file.visititems(keep)
    return found
