"""fold_norms: batch norms with running statistics are folded into the preceding weights; dropout and the like are
removed.

Assumes: a network for inference only.
Guarantees: y = (W x + b - mean) * s + beta with s = gamma / sqrt(variance + epsilon) is computed as W' x + b' with W' =
s W and b' = (b - mean) s + beta, which `folded` computes in float64 (Jacob et al. 2018, section 3.2). A norm is folded
when it is the only reader of a convolution or dense layer without activation; every refusal is a Decision with its
reason. Results differ from those of the norm by rounding, so nothing is folded under `order: bitwise`.
Does not: fold into weights after the norm.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

import compiler.ir.level0.model as l0
from compiler.layers import BATCH_NORM, KIND
from compiler.passes.program.decisions import Decision

Reals = npt.NDArray[np.floating]
PARTS = ("weight", "bias", "running_mean", "running_var")


@dataclass(frozen=True)
class Fold:
    """`norm` became part of `layer`, whose weight has its channels along `axis`. `bias`: the layer has had one."""

    norm: str
    layer: str
    epsilon: float
    axis: int
    bias: bool


def fold_norms(
    network: l0.Network, kept: tuple[str, ...], exact: bool = False
) -> tuple[l0.Network, tuple[Fold, ...], dict[str, str], list[Decision]]:
    """The simplified network; the folds; the layer that replaces each removed one; decisions. `kept`: layers whose
    values are outputs. `exact`: rounding must not change."""
    readers = network.readers
    made: dict[str, l0.Layer] = {}
    stands: dict[str, str] = {}
    folds: list[Fold] = []
    decisions: list[Decision] = []
    for old in network.layers:
        layer = replace(old, inputs=tuple(stands.get(n, n) for n in old.inputs))
        source = layer.inputs[0] if layer.inputs else ""
        if KIND[layer.kind].training and layer.activation is None:
            stands[layer.name] = source
            decisions.append(Decision("fold_norms", layer.name, "removed", f"{layer.kind} acts while training only"))
            continue
        if KIND[layer.kind] is not BATCH_NORM:
            made[layer.name] = layer
            continue
        before = made.get(source)
        reason = _refusal(before, old.inputs[0], readers, kept, exact)
        if before is not None and _shares(network, before, layer):
            reason = "its weights, or those of what it reads, are shared"
        if reason is not None or before is None:
            made[layer.name] = layer
            decisions.append(Decision("fold_norms", layer.name, "not folded", reason or ""))
            continue
        attrs = dict(before.attrs)
        epsilon = layer.attr("epsilon")
        assert isinstance(epsilon, int | float)
        axis = KIND[before.kind].channels
        assert axis is not None
        folds.append(Fold(layer.name, before.name, float(epsilon), axis, bool(attrs["bias"])))
        made[before.name] = replace(
            before,
            attrs=tuple(sorted({**attrs, "bias": True}.items())),
            activation=layer.activation,
            function=layer.function,
        )
        stands[layer.name] = before.name
        decisions.append(Decision("fold_norms", layer.name, "folded", f"into the weights of {before.name}"))
    return replace(network, layers=tuple(made.values())), tuple(folds), stands, decisions


def _shares(network: l0.Network, *layers: l0.Layer) -> bool:
    """Whether an array of one of the layers is that of another layer, too."""
    owners = {array.partition(".")[0] for array in network.shared}
    return any(layer.shared or layer.name in owners for layer in layers)


def _refusal(
    before: l0.Layer | None, name: str, readers: Mapping[str, list[str]], kept: tuple[str, ...], exact: bool
) -> str | None:
    """Why a norm is not folded; None when it can be folded into `before`, which it reads as `name`."""
    if exact:
        return "order: bitwise"
    if before is None or KIND[before.kind].channels is None:
        return "what it reads has no weights"
    if before.name != name:
        return f"`{before.name}` has been changed already"
    if before.activation not in (None, "linear", "identity"):
        return f"`{before.name}` has an activation"
    if len(readers[name]) > 1:
        others = ", ".join(f"`{r}`" for r in readers[name])
        return f"`{name}` is read by {others}"
    if name in kept:
        return f"`{name}` is kept for the host"
    groups = dict(before.attrs).get("groups", 0)
    if not groups and len(before.shape) > 1:
        return f"the channels of `{name}` are steps of a sequence"
    if KIND[before.kind].channels == 1 and groups != 1:
        return f"`{name}` has groups"
    return None


def folded(weights: Mapping[str, Reals], folds: tuple[Fold, ...]) -> dict[str, Reals]:
    """The weights of the simplified network from those of the whole one; those that change are float64."""
    out = dict(weights)
    for f in folds:
        gamma, beta, mean, variance = (out.pop(f"{f.norm}.{p}").astype(np.float64) for p in PARTS)
        w = out[f"{f.layer}.weight"]
        scale = gamma / np.sqrt(variance + f.epsilon)
        shape = tuple(-1 if a == f.axis else 1 for a in range(w.ndim))
        bias = out[f"{f.layer}.bias"].astype(np.float64) if f.bias else 0.0
        out[f"{f.layer}.weight"] = w * scale.reshape(shape)
        out[f"{f.layer}.bias"] = (bias - mean) * scale + beta
    return out
