"""Optimizations apply to their intended models. Their correctness is tested elsewhere; these tests fail where one is
lost (scripts/mutants.py)."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from backends.c_family.cprint import Dialect, Symbol
from backends.cuda.emit.emit import emit
from backends.cuda.emit.translation_units import parts_of
from backends.cuda.kernels.launch_geometry import calls_of
from backends.cuda.kernels.launch_work import Work
from backends.kernel_ir.expr import code
from backends.registry import backend
from compiler.expr.ast import Call, Ref
from compiler.expr.functions import ROUNDED
from compiler.frontend.load import load_model
from compiler.ir.level2.program import Contract, Dense, Launch, Merged, Nest, OneToOne, Propagate, Toeplitz
from compiler.ir.space import DType, Role
from compiler.layout.plan_memory import place
from compiler.layout.write_tables import write_tables
from compiler.passes.cells import exponentials
from compiler.passes.pipeline.lower import lower, lower_predict
from compiler.strategies import GROUPS

STRATEGIES = {
    "rows_conv": ("resnet20", "cpu", "one sample"),
    "rows_depthwise": ("mobile_digits", "cpu", "one sample"),
    "winograd_rows": ("resnet20", "cpu", "one sample"),
    "rows_dense": ("mlp", "cpu", "one sample"),
    "rows_product": ("transformer", "cpu", "one sample"),
    "rows_panels": ("lstm", "cpu", "one sample"),
    "rows_conv_weight_gradient": ("mobile_digits", "cpu", "small batches"),
    "lanes_dense": ("mlp", "cpu", "exact"),
    "dense_weight_gradient": ("mlp", "cpu", "exact"),
    "lanes_pairs": ("transformer", "cpu", "exact"),
    "lanes_conv": ("lenet5", "cpu", "exact"),
    "winograd_conv": ("resnet20", "cpu", "exact"),
    "winograd4_conv": ("convnet_l5", "cpu", "float32"),
    "lanes_conv_weight_gradient": ("lenet5", "cpu", "exact"),
    "winograd_weight_gradient": ("resnet20", "cpu", "exact"),
    "fourier_conv": ("convnet_l2", "cpu", "float32"),
    "fourier_weight_gradient": ("convnet_l2", "cpu", "float32"),
    "lanes_product": ("convnet_l5", "cpu", "float32"),
    "matmul": ("mlp", "cuda", "exact"),
    "direct_conv": ("lenet5", "cuda", "exact"),
    "direct_conv_weights": ("lenet5", "cuda", "exact"),
    "grouped_conv": ("mobile_digits", "cuda", "exact"),
    "grouped_conv_weights": ("mobile_digits", "cuda", "exact"),
    "depthwise_conv": ("mobile_digits", "cuda", "mixed", "128"),
    "depthwise_conv_weights": ("mobile_digits", "cuda", "mixed", "128"),
    "implicit_gemm": ("transformer", "cuda", "exact"),
    "fft_conv": ("convnet_l3", "cuda", "float32"),
    "tensor_conv_float32": ("resnet20", "cuda", "float32"),
    "tensor_conv_weights_float32": ("resnet20", "cuda", "float32"),
    "tensor_conv_tf32": ("resnet20", "cuda", "tf32"),
    "tensor_conv_weights_tf32": ("resnet20", "cuda", "tf32"),
    "tensor_conv_bf16": ("resnet20", "cuda", "bf16"),
    "tensor_conv_weights_bf16": ("resnet20", "cuda", "bf16"),
    "tensor_conv_stored": ("resnet20", "cuda", "mixed"),
    "tensor_conv_weights_stored": ("resnet20", "cuda", "mixed"),
    "split_products": ("transformer", "cuda", "float32", "1024"),
    "split_conv": ("convnet_l5", "cuda", "float32"),
    "tensor_products_float32": ("mlp", "cuda", "float32", "4094"),
    "tensor_products_tf32": ("mlp", "cuda", "tf32", "4094"),
    "tensor_products_bf16": ("mlp", "cuda", "bf16", "4094"),
    "tensor_cores_tf32": ("transformer", "cuda", "tf32"),
    "tensor_cores_tf32x3": ("transformer", "cuda", "tf32x3"),
    "stored_products": ("mlp", "cuda", "mixed"),
    "stored_conv": ("convnet_l3", "cuda", "mixed"),
    "stored_products_tf32": ("transformer", "cuda", "tf32", "1024"),
    "tensor_cores_stored": ("lenet_digits", "cuda", "mixed"),
}
"""Each with a model, a target, and how exact the products of a training are (`mixed`: its precision), or a use for one
sample at a time, or a training of four; and the width of the model, where it is not as the file says."""


SYNAPSES = """\
language: 1
name: synapses
neurons:
  cell: {state: {v: 0}, inputs: {g: {}}, update: [v = 0.9 * v + g], spike: {when: v > 1, reset: [v = 0]}}
synapses:
  scaled:
    params: {w: 0.5}
    pre: {state: {x: 0}, update: [x = 0.9 * x], on_spike: [x = x + 1]}
    on_pre: [deliver(w * pre.x)]
populations: {p: {neuron: cell, size: 9}}
projections:
  shared: {from: p, to: p, connect: RULE, synapse: scaled, deliver: {into: g}}
  drawn: {from: p, to: p, connect: RULE, deliver: {into: g, weight: {uniform: {low: 0, high: 1}}}}
simulate: {dt: 1 ms, duration: 5 ms, seed: 1}
""".replace("RULE", "{fixed_probability: {p: 0.5, storage: procedural}}")


def program(name: str, target: str, how: str = "exact", width: str = "") -> Merged:
    model = load_model(Path(__file__).parents[2] / "models" / f"{name}.yaml", {"width": width} if width else {})
    capabilities = backend(target).capabilities
    if how == "one sample":
        return lower_predict(model, capabilities, 1).lowered.merged
    if how == "small batches":
        assert model.train is not None
        return lower(replace(model, train=replace(model.train, batch=4)), capabilities).merged
    numerics = {"precision": how} if how == "mixed" else {"products": how}
    return lower(replace(model, numerics=replace(model.numerics, **numerics)), capabilities).merged


@cache
def text_of(name: str, target: str, how: str = "exact") -> str:
    return backend(target).emit(program(name, target, how))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_model_takes_the_strategy(strategy: str) -> None:
    found = program(*STRATEGIES[strategy])
    assert strategy in {t.body.strategy for t in found.templates if isinstance(t.body, Contract)}


def test_every_strategy_has_a_model() -> None:
    assert {s.name for group in GROUPS for s in group} == STRATEGIES.keys()


def test_large_products_are_row_major() -> None:
    """And small ones, of a batch that fills the lanes, are not."""
    assert any(a.layout for a in program("transformer", "cpu").arrays)
    assert not any(a.layout for a in program("transformer", "cpu", width="512").arrays)


@pytest.mark.parametrize(("units", "lanes"), [(512, True), (4096, False)])
def test_dense_layers_that_no_cache_holds_are_row_major(tmp_path: Path, units: int, lanes: bool) -> None:
    """Whatever the batch: gradients would read weights along their long side, and add to all sums again and again."""
    rng = np.random.default_rng(1)
    np.savez(tmp_path / "data.npz", x=rng.random((128, 1024), np.float32), label=np.zeros(128, np.int32))
    (tmp_path / "wide.yaml").write_text(
        f"""\
language: 1
name: wide
network:
  inputs: {{x: {{shape: [1024]}}, label: {{shape: [], dtype: int32}}}}
  layers:
    - repeat: {{times: 3, layers: [{{dense: {{units: {units}, activation: relu}}}}]}}
    - dense: {{name: logits, units: 10}}
train:
  data: {{file: data.npz, inputs: {{x: x, label: label}}}}
  loss: {{softmax_cross_entropy: {{logits: logits, target: label}}}}
  optimizer: {{sgd: {{learning_rate: 0.01}}}}
  batch: 128
  epochs: 1
"""
    )
    merged = lower(load_model(tmp_path / "wide.yaml", {}), backend("cpu").capabilities).merged
    assert any(a.layout for a in merged.arrays) == lanes


def test_columns_of_row_major_arrays_are_summed_side_by_side() -> None:
    assert "sums[512]" in backend("cpu").emit(program("transformer", "cpu", width="512"))


def test_tensors_share_memory() -> None:
    placed = place(program("resnet20", "cpu"), {})
    assert 2 * placed.arena_bytes[Role.WORK] < placed.unshared_bytes


@pytest.mark.parametrize(
    ("name", "target", "what"),
    [
        ("spiking_conv", "cpu", "channels side by side"),
        ("stdp", "cpu", "nl_words("),  # draws of many neurons at once
        ("cuba", "cpu", "nl_prefetch("),  # rows of synapses, before their events are delivered
        ("custom_optimizer", "cpu", "nl_parts_of_rest("),  # masked loads of the last terms of rows
        ("cuba", "cuda", "nl_many"),  # points of a thread
        ("stdp", "cuda", "nl_wave"),
        ("lstm", "cuda", "nl_chained("),
        ("lstm", "cuda", "rcp.approx.ftz"),  # a division without a branch
        ("mlp", "cuda", "nl_joined_columns<"),  # sums over the rows of a matrix
        ("mlp", "cuda", "nl_get_aligned<real>(&"),  # four columns at a time
        ("mlp", "cuda", "nl_lanes = nl_lanes_of("),  # several rows of few columns
        ("autoencoder", "cuda", "nl_width"),  # neighbours of a map
        ("resnet20", "cuda", "if (nl_has_"),  # neighbours that share a guard
        ("lenet5", "cuda", "else nl_each<2>(nl_point)"),  # neighbours of sums over windows
        ("lenet5", "cuda", "nl_get_line<2, real>(&"),  # windows that are read and written line by line
        ("lenet5", "cuda", "nl_take(rest, n_ow_, ow_inverse)"),
        ("lenet5", "cuda", "const nl_i64 of_step = "),  # the batch of a step, once a thread
        ("transformer", "cuda", "nl_load_of[4]"),  # points of a thread of a map that are no neighbours
        ("custom_optimizer", "cuda", "const real beta1_to_step = "),  # once a thread
    ],
)
def test_the_text_has_it(name: str, target: str, what: str) -> None:
    assert what in text_of(name, target)


def test_epilogues_of_stored_products_take_sixteen_bytes() -> None:
    """Eight neighbours of bf16 are read and written at once; what is rounded when it is written is not before."""
    text = text_of("transformer", "cuda", "mixed")
    stores = [part.split("\n}\n")[0] for part in text.split("_stored_products_store(const ")[1:]]
    assert any("        nl_words<nl_bfloat, 8> " in store for store in stores)
    assert any("nl_sums_at<8>(" in store for store in stores)
    assert not any(re.search(r"nl_x\.\w+\.x\[nl_n\] = nl_bf16_f32\(", store) for store in stores)


def test_epilogues_of_convolutions_divide_no_index() -> None:
    """Rows and columns of pixels, and samples, are one index, as they lie in memory."""
    text = text_of("convnet_l3", "cuda", "mixed")
    stores = [part.split("\n}\n")[0] for part in text.split("_stored_conv_store(const ")[1:]]
    assert any("oh = 0;" in store and "ow = nl_slow;" in store and "nl_take(" not in store for store in stores)


def test_values_that_are_rounded_to_bf16_come_from_coarse_functions() -> None:
    """Those of float32 do not, nor do arguments of other functions."""
    coarse = re.compile(r"nl_coarse_\w+_f32\(")
    assert coarse.search(text_of("transformer", "cuda", "mixed"))
    assert not coarse.search(text_of("transformer", "cuda"))
    x = Ref("x")
    value = Call(ROUNDED, (Call("exp", (x,)) + Call("log", (Call("exp", (x,)),)),)) + Call("exp", (x,))
    found = Dialect(DType.F32, coarse=frozenset({"exp"})).expr(value, {"x": Symbol(code("x"), DType.F32)})
    assert found.text == "nl_bf16_f32(nl_coarse_exp_f32(x) + nl_log_f32(nl_exp_f32(x))) + nl_exp_f32(x)"


def test_maps_of_bf16_are_optimised() -> None:
    """Quickly compiled ones keep registers in memory."""
    merged = program("transformer", "cuda", "mixed")
    (maps,) = (x for x in parts_of(merged, {}) if x.name == "maps")
    assert maps.kernels and not maps.quick
    bodies = [merged.templates[t].body for t in maps.kernels]
    assert all(isinstance(b, Nest) and b.combine is None for b in bodies)


def test_rows_are_read_and_written_several_neighbours_at_a_time() -> None:
    """Sums of a row, and what follows them: eight of bf16, four of float32."""
    for how, many in (("mixed", 8), ("exact", 4)):
        text = text_of("transformer", "cuda", how)
        rows = [x.split("\n}\n")[0] for x in re.split(r"NL_FN void k\d+_rows_over_\w+_block", text)[1:]]
        loop = rf"for \(nl_i64 (\w+) = {many} \* nl_first; \1 < nl_terms;"
        wide = [x for x in rows if re.search(loop, x)]
        assert any(f"nl_each<{many}>(nl_point)" in x and "nl_write(&" in x for x in wide)


def test_products_of_one_launch_split_their_sums_as_it_needs() -> None:
    """The gradients of the weights of query and key; that of the output's, which is alone, splits its sums in more."""
    model = load_model(Path(__file__).parents[2] / "models" / "transformer.yaml", {"width": "512"})
    assert model.train is not None
    train, numerics = replace(model.train, batch=512), replace(model.numerics, precision="mixed")
    lowered = lower(replace(model, train=train, numerics=numerics), backend("cuda").capabilities)
    (_, made) = [d for d in lowered.decisions if d.pass_name == "resplit_products"]
    assert made.reason == "2 products are one launch" and made.verdict == "sums in 2 parts"
    (rows,) = [t for t in lowered.merged.tables if made.subject in t.paths and "s_splits" in t.scalars]
    by_path = dict(zip(rows.paths, rows.scalars["s_splits"], strict=True))
    assert by_path["seen_1.key.weight.grad"] == 2 < by_path["seen_1.out.weight.grad"]


def test_blocks_of_large_maps_of_bf16_are_few() -> None:
    """As many points as ResNet-50's first activations have."""
    merged = program("transformer", "cuda", "mixed")
    (maps,) = (x for x in parts_of(merged, {}) if x.name == "maps")
    tables, kernels = write_tables(merged, place(merged, {}), 1, {}), emit(merged).kernels
    for t in maps.kernels:
        template = merged.templates[t]
        assert isinstance(template.body, Nest)
        names = [f.name for f in template.formals]
        table = tables[t][:1].copy()
        for d, extent in zip(reversed(template.body.dims), (64, 1 << 20, 1), strict=False):
            assert isinstance(d.extent, str)
            table[:, names.index(d.extent)] = extent
        work = Work(template, kernels[t], merged.tables[t], table, Launch(t, 0, 1), lambda name: 1, 8)
        assert sum(call.grid for call in calls_of(work)) <= 1 << 10


def test_gradients_of_windows_that_overlap_skip_terms_that_are_0(tmp_path: Path) -> None:
    """Of three windows along a row an element is in two at most."""
    models = Path(__file__).parents[2] / "models"
    text = (models / "lenet5.yaml").read_text(encoding="utf-8")
    text = text.replace("data/digits.npz", str(models / "data" / "digits.npz"))
    changed = text.replace("max_pool2d: {size: 2}", "max_pool2d: {size: 3, stride: 2, padding: 1}")
    (tmp_path / "model.yaml").write_text(changed, encoding="utf-8")
    cuda = backend("cuda")
    found = cuda.emit(lower(load_model(tmp_path / "model.yaml"), cuda.capabilities).merged)
    assert "for (nl_i64 r = nl_rest(" in found and "r += 2" in found


def test_products_of_several_templates_are_one_kernel() -> None:
    text = text_of("lenet5", "cuda")
    groups = re.findall(r"switch \(nl_group\) \{([^}]*)\}", text)
    assert max(g.count("case ") for g in groups) > 1


def test_equal_systems_have_one_exponential(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both populations have the same time constants."""
    computed, expm = list[int](), exponentials.exponentials_of
    monkeypatch.setattr(exponentials, "exponentials_of", lambda a: computed.append(len(a)) or expm(a))
    lower(load_model(Path(__file__).parents[2] / "models" / "cuba.yaml"), backend("cpu").capabilities)
    assert computed == [1]


@pytest.mark.parametrize("what", ["each_0_ = ", "nl_words(words, weight_key_"])
def test_synapses_share_what_is_one_for_a_spike_and_draw_many_at_once(tmp_path: Path, what: str) -> None:
    (tmp_path / "model.yaml").write_text(SYNAPSES, encoding="utf-8")
    cpu = backend("cpu")
    assert what in cpu.emit(lower(load_model(tmp_path / "model.yaml"), cpu.capabilities).merged)


POSITIONS = """\
language: 1
name: positions
neurons:
  cell: {state: {v: 0}, inputs: {g: {}}, update: [v = 0.9 * v + g], spike: {when: v > 1, reset: [v = 0]}}
populations: {p: {neuron: cell, shape: [5, 5]}, q: {neuron: cell, shape: [5, 5]}}
projections: {c: {from: p, to: q, connect: RULE, deliver: {into: g, weight: 0.5}}}
simulate: {dt: 1 ms, duration: 5 ms, seed: 1}
"""


@pytest.mark.parametrize(
    ("rule", "relation"),
    [
        ("{all_to_all: {}}", Dense),
        ("{one_to_one: {}}", OneToOne),
        ("{conv2d: {kernel: 3, padding: 1}}", Toeplitz),
    ],
)
def test_pairs_that_follow_from_positions_are_not_stored(tmp_path: Path, rule: str, relation: type) -> None:
    (tmp_path / "model.yaml").write_text(POSITIONS.replace("RULE", rule), encoding="utf-8")
    found = lower(load_model(tmp_path / "model.yaml"), backend("cpu").capabilities).merged
    assert {type(t.body.relation) for t in found.templates if isinstance(t.body, Propagate)} == {relation}


ONLY_DELIVERS = """
language: 1
neurons:
  n: {inputs: {g: {}}, state: {v: 0}, update: [v = v + g], spike: {when: v > 1, reset: [v = 0]}}
populations: {a: {neuron: n, size: 10}, b: {neuron: n, size: 10}}
projections:
  p: {from: a, to: b, connect: &some {fixed_probability: {p: 0.5}}, deliver: {into: g, weight: 0.5}, delay: &late
    {uniform: {low: 1 ms, high: 5 ms, round: nearest}}}
  q: {from: b, to: a, connect: *some, synapse: library/synapses/static, params: {w: 1}, deliver: {into: g},
    delay: *late}
simulate: {duration: 20 ms, dt: 1 ms}
"""


def test_a_synapse_that_only_delivers_is_as_none(tmp_path: Path) -> None:
    """Its deliveries with delays of their own go into the ring buffer of the input, in the kernel of the others."""
    path = tmp_path / "m.yaml"
    path.write_text(ONLY_DELIVERS, encoding="utf-8")
    merged = lower(load_model(path, {}), backend("cpu").capabilities).merged
    (template,) = [t for t in merged.templates if isinstance(t.body, Propagate)]
    (step,) = [p for p in merged.phases if p.name == "step"]
    (launch,) = [x for x in step.launches if merged.templates[x.template] is template]
    assert launch.hi - launch.lo == 2


CONVOLUTION = """\
language: 1
name: convolution
neurons:
  cell: {state: {v: 0}, inputs: {g: {}}, update: [v = 0.9 * v + g], spike: {when: v > 1, reset: [v = 0]}}
populations: {a: {neuron: cell, shape: [1, 8, 8]}, b: {neuron: cell, shape: [2, 6, 6]}}
projections:
  stored:
    from: a
    to: b
    connect: {conv2d: {kernel: [3, 3], storage: sparse}}
    deliver: {into: g, weight: {uniform: {low: 0, high: 1}}}
simulate: {dt: 1 ms, duration: 5 ms, seed: 1}
"""


def test_synapses_of_a_stored_convolution_share_its_elements(tmp_path: Path) -> None:
    (tmp_path / "model.yaml").write_text(CONVOLUTION, encoding="utf-8")
    found = lower(load_model(tmp_path / "model.yaml"), backend("cpu").capabilities).merged
    assert {a.name: a.shape for a in found.arrays}["stored[a->b].weight"] == (2 * 1 * 3 * 3,)
