"""`netloom init --from`: a model that fits the arrays, columns or images of a data source.

Assumes: what compiler/files/array_files.py reads.
Guarantees: shapes, number of classes and scale come from the data; a comment says what was found. Whole numbers from 0
are classes; any other target is a quantity.
Does not: write, or look for a good network: it writes a small one to begin with.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from compiler.core.diagnostics import RunError
from compiler.files.array_files import Header, headers, read_array

TARGETS: Final = ("label", "labels", "target", "targets", "class", "classes", "y", "y_train", "train_labels")
SAMPLES: Final = ("images", "image", "x", "x_train", "features", "data", "samples", "train_images", "inputs")
MOST_CLASSES: Final = 1000
TEXT: Final = """\
# yaml-language-server: $schema=schema
language: 1
name: fitting
description: {description}

params:                                  # change them with --set, e.g. --set width=128
  width: {{value: {width}, type: int, min: 1, description: {what}}}
  learning_rate: {{value: 1e-3, min: 0}}

network:
  inputs:                                # one sample; the batch is not written
    x: {{shape: {shape}}}
    y: {{shape: {target}{dtype}}}
  layers:                                # each takes the one before it, unless it has `inputs`
{layers}
train:
  data:
{data}
  loss: {loss}
  metrics: [{metric}]
  optimizer: {{adam: {{learning_rate: learning_rate}}}}
  batch: {batch}
  epochs: 10
  seed: 1

expect:                                  # `netloom test` checks these
  - metric: {{name: validation_{metric}, at_least: {least}}}{why}
"""


@dataclass(frozen=True)
class Found:
    """What is to be learned: the names of the arrays (several: columns), and their values."""

    samples: tuple[str, ...]
    target: str
    x: npt.NDArray[Any]
    y: npt.NDArray[Any]
    columns: bool


def _refuse(message: str, help: str | None = None) -> RunError:
    return RunError("E0917", message, help)


def fitting_model(source: Path, folder: Path) -> str:
    """The text of a model in `folder` that learns from `source`. Raises RunError (E0917, exit 2)."""
    if not source.exists():
        raise _refuse(f"there is no data file `{source}`")
    try:
        known = headers(source)
        found = _found(source, known)
    except (OSError, ValueError, ImportError) as error:
        raise _refuse(f"`{source}` cannot be read: {' '.join(str(error).split())[:200]}") from None
    for name, values in ((", ".join(found.samples), found.x), (found.target, found.y)):
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            raise _refuse(f"`{name}` in `{source}` holds NaN or infinite numbers", "leave these samples out")
    classes = _classes(found.y)
    place = "folder" if source.is_dir() else "file"
    others = [n for n in known if n not in (*found.samples, found.target)]
    image = _channels(found.x.shape[1:]) is not None
    count = len(found.x)
    data = [
        f"    {place}: {json.dumps(os.path.relpath(source, folder or '.').replace(os.sep, '/'), ensure_ascii=False)}"
    ]
    if others:
        listed = ", ".join(json.dumps(n)[1:-1] for n in others[:6]) + (", ..." if len(others) > 6 else "")
        data.append(f"    # not used: {listed}")
    names = [json.dumps(n, ensure_ascii=False) for n in found.samples]
    x = f"{{columns: [{', '.join(names)}]}}" if found.columns else names[0]
    data.append(f"    inputs: {{x: {x}, y: {json.dumps(found.target, ensure_ascii=False)}}}")
    scales = {"x": _scale(found.x) if image else None, "y": None if classes else _scale(found.y)}
    if any(scales.values()):
        data.append(f"    scale: {{{', '.join(f'{n}: {s}' for n, s in scales.items() if s)}}}")
    data.append(f"    split: {{validation: 0.2{', stratify: y' if classes else ''}}}")
    units = classes or max(1, int(np.prod(found.y.shape[1:])))
    out = "logits" if classes else "out"
    layers = [*_layers(found.x.shape[1:]), f"    - dense: {{name: {out}, units: {units}}}"]
    if not classes and found.y.ndim != 2:
        layers[-1] = f"    - dense: {{units: {units}}}"
        layers.append(f"    - reshape: {{name: out, shape: {list(found.y.shape[1:])}}}")
    goal = f"{classes} classes" if classes else "a quantity" if units == 1 else f"{units} quantities"
    common = float(np.bincount(found.y).max()) / count if classes else 0.0
    return TEXT.format(
        description=json.dumps(f"Learns {goal} from {count:,} samples of {source.name}.", ensure_ascii=False),
        width=8 if image else 64,
        what="Channels after the first convolution" if image else "Hidden units",
        shape=list(found.x.shape[1:]),
        target=list(found.y.shape[1:]),
        dtype=", dtype: int32" if classes else "",
        layers="\n".join(layers) + "\n",
        data="\n".join(data),
        loss=f"{{softmax_cross_entropy: {{logits: {out}, target: y}}}}"
        if classes
        else f"{{mean_squared_error: {{prediction: {out}, target: y}}}}",
        metric="accuracy" if classes else "r2",
        batch=min(64, max(1, count // 10)),
        least=f"{common:.3g}",
        why=f" # {'the most frequent class' if classes else 'the mean'} alone reaches this",
    )


def _found(source: Path, known: Mapping[str, Header]) -> Found:
    """The arrays to learn from. Raises RunError (E0917) where they are not clear."""
    if not known or "" in known:
        raise _refuse(
            f"`{source}` holds numbers without names",
            "use an .npz file with `x` and `y`, or a .csv with a line of names",
        )
    lower = {n.lower(): n for n in known}
    table = all(len(h.shape) == 1 for h in known.values())
    target = next((lower[n] for n in TARGETS if n in lower), None)
    if target is None:
        flat = [n for n, h in known.items() if len(h.shape) == 1]
        target = list(known)[-1] if table and len(known) > 1 else flat[0] if len(flat) == 1 else None
    listed = ", ".join(f"`{n}`" for n in list(known)[:12])
    help = f"call the samples `x` and the target `y`; it has {listed}"
    if target is None:
        raise _refuse(f"it is not clear which array of `{source}` is to be learned", help)
    count = known[target].shape[:1]
    fit = [n for n, h in known.items() if n != target and h.shape[:1] == count and h.kind in "fiub"]
    if not fit or not count or count[0] < 2:
        raise _refuse(f"`{source}` has no samples for the target `{target}`", help)
    if known[target].kind not in "fiub":
        raise _refuse(
            f"the target `{target}` in `{source}` holds {known[target].dtype}, not numbers",
            "number the classes from 0: `numpy.unique(labels, return_inverse=True)[1]`",
        )
    y = np.asarray(read_array(source, target))
    if table:
        x = np.stack([np.asarray(read_array(source, n)) for n in fit], axis=1)
        return Found(tuple(fit), target, x, y, True)
    largest = max(fit, key=lambda n: known[n].size)
    chosen = next((lower[n] for n in SAMPLES if lower.get(n) in fit), largest)
    x = np.asarray(read_array(source, chosen))
    return Found((chosen,), target, x, y, False)


def _classes(y: npt.NDArray[Any]) -> int | None:
    """How many classes the target has; None where it is a quantity."""
    if y.ndim != 1 or y.dtype.kind not in "iub" or y.min() < 0:
        return None
    count = int(y.max()) + 1
    return count if 2 <= count <= min(MOST_CLASSES, max(2, len(y) // 2)) else None


def _scale(values: npt.NDArray[Any]) -> str | None:
    """A factor that brings values to at most 1; None where they are about that."""
    most = float(np.abs(values.astype(np.float64)).max(initial=0))
    if 0.1 <= most <= 4:
        return None
    whole = 255 if values.dtype == np.uint8 and most > 128 else most
    return None if most == 0 else f"1 / {whole:.6g}"


def _channels(shape: tuple[int, ...]) -> int | None:
    """The axis of the channels of an image of at least 4 x 4 pixels: 0 or 2; None where samples are no images."""
    if len(shape) != 3:
        return None
    return next(
        (a for a in (0, 2) if shape[a] in (1, 3, 4) and min(s for i, s in enumerate(shape) if i != a) >= 4), None
    )


def _layers(shape: tuple[int, ...]) -> list[str]:
    """The layers before the last one, as lines."""
    channels = _channels(shape)
    if channels is not None:
        first = [] if channels == 0 else ["    - permute: {inputs: x, axes: [2, 0, 1]} # channels first"]
        inputs = "inputs: x, " if channels == 0 else ""
        return [
            *first,
            f"    - conv2d: {{{inputs}filters: width, kernel: 3, padding: same, activation: relu}}",
            "    - max_pool2d: {size: 2}",
            "    - conv2d: {filters: 2 * width, kernel: 3, padding: same, activation: relu}",
            "    - max_pool2d: {size: 2}",
            "    - flatten: {}",
        ]
    first = ["    - reshape: {inputs: x, shape: [1]}"] if not shape else ["    - flatten: {inputs: x}"]
    return [
        *(first if len(shape) != 1 else []),
        f"    - batch_norm: {{{'inputs: x' if len(shape) == 1 else ''}}} # to the mean 0 and the variance 1",
        "    - dense: {units: width, activation: relu}",
        "    - dense: {units: width, activation: relu}",
    ]
