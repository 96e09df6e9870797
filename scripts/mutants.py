"""Mutants: each optimization switched off in turn, which a test has to notice.

    python -m scripts.mutants [NAME ...]                   all of them, or some
    python -m pytest -p scripts.mutants --mutant NAME      a run of tests without one optimization

Assumes: an environment with the extra `dev`; the tests that a mutant names pass without it (this is run first).
Guarantees: exit status 1 where the tests that are expected to notice pass, or do not run. Functions are replaced in the
process of the tests; no file is changed.
Does not: look for other tests that might notice.
"""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).resolve().parents[1]
PASSES = "tests/passes/test_passes.py"
TEXTS = "tests/unit/test_optimizations.py"
SYNAPSES = f"{TEXTS}::test_synapses_share_what_is_one_for_a_spike_and_draw_many_at_once"
GOLDEN = "tests/golden/test_golden.py"


@dataclass(frozen=True)
class Mutant:
    """`places`: "module:name", or "module:Class.method"; `instead`: from what stands there to what stands there in the
    mutant; `tests`: those of which one is to notice, as pytest names them."""

    name: str
    places: tuple[str, ...]
    instead: Callable[[Any], Any]
    tests: tuple[str, ...]


def _always(value: Any) -> Callable[[Any], Any]:
    """A function that gives `value`, whatever it is asked."""
    return lambda _: lambda *_args, **_more: value


def _argument(number: int) -> Callable[[Any], Any]:
    """A function that gives back one of its arguments."""
    return lambda _: lambda *args, **_more: args[number]


def _copied(result: Callable[..., None]) -> Callable[..., None]:
    """`result` of lower_scan.py that sees no kernel that computes anything."""

    def copied(self: Any, *args: Any) -> None:
        self.computed.clear()
        result(self, *args)

    return copied


def _pass(name: str, case: str, decides: bool = True) -> Mutant:
    """A pass from graph to graph that leaves every graph as it is. `decides`: it says what it has decided."""

    def left(nodes: Any, *_: Any) -> Any:
        return (nodes, ()) if decides else nodes

    place = f"compiler.passes.pipeline.tensors:{name}"
    return Mutant(name, (place,), lambda _: left, (f"{PASSES}::test_case[{name}.{case}]",))


def _strategy(name: str) -> Mutant:
    def without(groups: Any) -> Any:
        return tuple(tuple(x for x in group if x.name != name) for group in groups)

    test = f"{TEXTS}::test_a_model_takes_the_strategy[{name}]"
    return Mutant(f"strategy {name}", ("compiler.strategies:GROUPS",), without, (test,))


def _text(name: str, place: str, instead: Callable[[Any], Any], *cases: str) -> Mutant:
    return Mutant(name, (place,), instead, tuple(f"{TEXTS}::test_the_text_has_it[{case}]" for case in cases))


def _large_tiles(found: Any) -> Any:
    """Tilings without the smallest tile."""
    return lambda *args: [x for x in found(*args) if x.tile != 2]


def _whole_warps(found: Any) -> Any:
    """Columns of which the threads of a warp have one row."""
    from dataclasses import replace

    from backends.kernel_ir.stmt import Let

    def column(loop: Any) -> list[Any]:
        own = [isinstance(s, Let) and str(s.name) == "nl_lanes" for s in found(loop)]
        return [replace(s, value=32) if lanes else s for s, lanes in zip(found(loop), own, strict=True)]

    return column


def _plain_division(_: Any) -> Any:
    from backends.c_family.point_nest import PointNest

    return PointNest.taken


def _no_chains(_: Any) -> Any:
    from compiler.passes.program.persistent_rnn import Chained

    return lambda merged, *_more: Chained(merged)


def _each_alone(_: Any) -> Any:
    """A digest that no two kernels share."""
    from itertools import count

    numbers = count()
    return lambda kernel: f"{next(numbers):016x}"


def _exact(fold: Any) -> Any:
    return lambda network, kept, exact=False: fold(network, kept, True)


def _apart(place: Any) -> Any:
    return lambda merged, sizes, apart=0: place(merged, sizes, 1 << 62)


def _one_point(_: Any) -> Any:
    return lambda points, *_: [points]


def _no_draws(_: Any) -> Any:
    from backends.cpu.kernels.batched_rng import Draws

    return lambda k, nest, *_: (nest, Draws())


def _each_exponential(_: Any) -> Any:
    from compiler.passes.cells import exponentials

    return lambda matrices: exponentials.exponentials_of(matrices)


def _no_draws_of_synapses(_: Any) -> Any:
    from backends.cpu.kernels.batched_rng import Draws

    return lambda k, statements, *_: (statements, Draws())


def _each_time(_: Any) -> Any:
    return lambda p, known: ((), p.statements)


def _all_meet(_: Any) -> Any:
    return lambda pairs: frozenset(range(len(pairs)))


def _one_part(_: Any) -> Any:
    from backends.cuda.emit.translation_units import whole_of

    return lambda program: (whole_of(program),)


def _own_name(shared_name: Any) -> Any:
    return lambda template, contract: f"{shared_name(template, contract)}_{template.index}"


def _stored(_: Any) -> Any:
    """Rows for every rule whose file does not say how its connections are held."""
    return lambda family: "sparse" if family.storage == "auto" else family.storage


def _without_model(known: Any) -> Any:
    """Of projections that name no synapse model alone."""
    return lambda projection: known(projection) if projection.synapse is None else None


_PROJECTIONS = "compiler.frontend.build.projections"
_DIRECT = "tests/unit/test_direct_conv.py"
_COPIES = "tests/unit/test_copies.py::test_copies_are_built_at_once"
_EVENTS = "backends.cpu.kernels.propagate"
_TENSORS = "compiler.passes.kernels.lower_tensors"
STRATEGIES = (
    "rows_conv", "rows_conv_weight_gradient", "rows_depthwise", "winograd_rows", "rows_dense", "rows_product",
    "rows_panels",
    "lanes_dense", "dense_weight_gradient",
    "lanes_pairs",
    "lanes_product", "lanes_conv", "winograd_conv", "winograd4_conv", "lanes_conv_weight_gradient",
    "winograd_weight_gradient",
    "fourier_conv", "fourier_weight_gradient", "matmul", "direct_conv", "direct_conv_weights", "implicit_gemm",
    "grouped_conv", "grouped_conv_weights", "depthwise_conv", "depthwise_conv_weights",
    "fft_conv", "tensor_conv_float32", "tensor_conv_weights_float32", "tensor_conv_tf32", "tensor_conv_weights_tf32",
    "tensor_conv_bf16", "tensor_conv_weights_bf16", "tensor_conv_stored", "tensor_conv_weights_stored",
    "tensor_cores_tf32", "tensor_cores_tf32x3", "tensor_products_float32", "tensor_products_tf32",
    "tensor_products_bf16", "split_products", "split_conv", "stored_products", "stored_products_tf32",
    "stored_conv", "tensor_cores_stored",
)  # fmt: skip
MUTANTS = (
    # passes
    _pass("pick_in_rows", "row"),
    _pass("compose_moves", "slices", decides=False),
    _pass("fuse_maps", "chain"),
    _pass("hoist_factors", "scale", decides=False),
    _pass("window_choices", "pooled"),
    Mutant(
        "window_choices leaves nothing behind",
        ("compiler.passes.pipeline.tensors:live_nodes",),
        _argument(0),
        (f"{PASSES}::test_case[window_choices.pooled]",),
    ),
    Mutant(
        "drop_idle",
        ("compiler.passes.program.drop_idle:drop_idle",),
        _argument(0),
        (f"{PASSES}::test_case[drop_idle.nothing]",),
    ),
    _pass("late_reshapes", "groups", decides=False),
    _pass("early_factors", "late", decides=False),
    _pass("recompute", "checkpoint"),
    _pass("dense_groups", "few"),
    _pass("one_tap", "wide"),
    _pass("channels_last", "moved"),
    _pass("pack_windows", "packed"),
    _pass("pack_panels", "scan"),
    _pass("pad_rows", "padded"),
    Mutant(
        "prepare_weights",
        ("compiler.passes.pipeline.tensors:prepare_weights",),
        lambda _: lambda nodes, outputs: ((), nodes, ()),
        (f"{PASSES}::test_case[prepare_weights.norm]",),
    ),
    _pass("shift_variances", "large"),
    _pass("sum_in_tiles", "norm"),
    _pass("simplify_graph", "equal", decides=False),
    Mutant(
        "persistent_rnn",
        ("compiler.passes.program.persistent_rnn:chains",),
        _no_chains,
        (f"{PASSES}::test_case[persistent_rnn.gru]",),
    ),
    # within passes
    Mutant(
        "exchanged convolutions",
        ("compiler.strategies.variants:exchanged",),
        _always([]),
        ("tests/cpu/test_exchange.py::test_exchanges_have_the_same_sums[0]",),
    ),
    Mutant(
        "row-major gradients as equivalent convolutions",
        ("compiler.strategies:_equivalent",),
        _always(None),
        ("tests/cpu/test_exchange.py::test_rules_take_them_where_rows_have_nothing_else",),
    ),
    Mutant(
        "attention at once",
        ("compiler.strategies.cuda.fused_attention:Attending.match",),
        _always(None),
        ("tests/unit/test_attention.py::test_results_share_kernels",),
    ),
    Mutant(
        "results of attention share kernels",
        ("compiler.passes.kernels.lower_tensors:_computed_with",),
        _always(False),
        ("tests/unit/test_attention.py::test_results_share_kernels",),
    ),
    Mutant(
        "parts of concatenations lie in their places",
        ("compiler.passes.kernels.lower_tensors:place_parts",),
        _always(None),
        ("tests/cpu/test_place_parts.py::test_concatenations_have_no_kernel[cpu-reproducible-float32]",),
    ),
    Mutant(
        "slices are read where they lie",
        ("compiler.passes.kernels.place_parts:_Placing.slice",),
        _always(None),
        ("tests/cpu/test_place_parts.py::test_concatenations_have_no_kernel[cuda-reproducible-float32]",),
    ),
    Mutant(
        "attention reads slices where they lie",
        ("compiler.passes.kernels.place_parts:_heads",),
        _always(False),
        ("tests/unit/test_attention.py::test_slices_are_read_where_they_lie[float32]",),
    ),
    Mutant(
        "sequences lie in the order of steps",
        ("compiler.passes.kernels.place_parts:_Placing.steps",),
        _always(None),
        ("tests/cpu/test_place_parts.py::test_sequences_lie_in_the_order_of_steps[cuda-reproducible]",),
    ),
    Mutant(
        "strategies read through strides",
        ("compiler.strategies.strategy:Strategy.reads",),
        lambda reads: lambda self, p: reads(self, p) and not any(t.whole for t in p.operands),
        ("tests/cpu/test_place_parts.py::test_parts_of_parts_are_read_by_strategies[cuda-reproducible]",),
    ),
    Mutant(
        "what a step makes lies in its place",
        ("compiler.passes.kernels.lower_scan:_Reserving.result",),
        _copied,
        ("tests/unit/test_scan.py::test_nothing_is_copied",),
    ),
    Mutant(
        "sums over many rows are taken by chunks",
        ("compiler.strategies.cpu.dense_weight_gradient:CHUNK_BYTES",),
        lambda _: 1 << 40,
        ("tests/cpu/test_strategies.py::test_chunks_of_rows",),
    ),
    Mutant(
        "sums of two moves are joined",
        ("compiler.passes.tensors.compose_moves:_joined",),
        _always(None),
        (f"{PASSES}::test_case[compose_moves.halves]",),
    ),
    Mutant(
        "elementwise work joins reductions",
        ("compiler.passes.tensors.fuse_maps:_visits_once",),
        _always("never"),
        (f"{PASSES}::test_case[fuse_maps.reduction]",),
    ),
    Mutant(
        "equal nodes are one",
        ("compiler.passes.tensors.simplify_graph:_share",),
        lambda _: list,
        (f"{PASSES}::test_case[simplify_graph.equal]",),
    ),
    Mutant(
        "epilogues",
        (f"{_TENSORS}:epilogues",),
        lambda _: lambda *_: ({}, []),
        ("tests/unit/test_require_fusion.py::test_met", f"{PASSES}::test_case[require_fusion.one_kernel]"),
    ),
    Mutant(
        "horizontal fusion",
        (f"{_TENSORS}:siblings",),
        lambda _: lambda *_: ({}, []),
        ("tests/unit/test_fuse_siblings.py", f"{GOLDEN}::test_decisions"),
    ),
    Mutant(
        "sums over the same elements share a kernel",
        ("compiler.passes.fusion.fuse_sums:_alike",),
        _always(False),
        ("tests/unit/test_fuse_sums.py",),
    ),
    Mutant(
        "what follows sums of rows shares their kernel",
        (f"{_TENSORS}:fits",),
        _always(False),
        ("tests/unit/test_fuse_rows.py::test_a_normalisation_of_rows_is_one_launch_forward_and_one_backward",),
    ),
    Mutant(
        "channels of all samples are rows",
        ("compiler.strategies.cost.cuda:LONG_SUM",),
        lambda _: 0,
        ("tests/unit/test_fuse_rows.py::test_rows_that_threads_share[extents5-d1-True]",),
    ),
    Mutant(
        "gradients of weights leave room for what runs beside them",
        ("compiler.strategies.cost.cuda:WEIGHTS_CROWD",),
        lambda _: 0.0,
        (f"{_DIRECT}::test_short_gradients_of_weights_leave_room_for_what_runs_beside_them",),
    ),
    Mutant(
        "threads of direct convolutions sum six outputs",
        ("compiler.strategies.cuda.direct_conv:OUTS",),
        lambda _: (8, 4),
        (f"{_DIRECT}::test_threads_sum_as_many_outputs_as_there_are",),
    ),
    Mutant(
        "aligned elements are copied together",
        ("compiler.strategies.cuda.direct_conv:alignment",),
        _always(1),
        (f"{_DIRECT}::test_aligned_elements_are_copied_together",),
    ),
    Mutant(
        "choices in windows are found with the maximum",
        ("compiler.passes.fusion.fuse_rows:_Search._alike",),
        _always(False),
        ("tests/unit/test_window_choices.py::test_no_kernel_writes_all_elements",),
    ),
    Mutant(
        "maxima and gradients of pooling are computed window by window",
        ("compiler.passes.fusion.fuse_rows:tiles",),
        _always(()),
        ("tests/unit/test_fuse_rows.py::test_losses_and_maxima_of_pooling_are_one_launch_each",),
    ),
    Mutant(
        "the gradient of a loss is in the kernel of its sums",
        ("compiler.passes.fusion.fuse_rows:_is_choice",),
        _always(False),
        ("tests/unit/test_fuse_rows.py::test_a_loss_and_its_gradient",),
    ),
    Mutant(
        "rows that are ready early are launches of their own",
        ("backends.cuda.run.split_launches:_ends",),
        lambda _: lambda times, work: [len(times)],
        ("tests/unit/test_split_launches.py",),
    ),
    Mutant(
        "the longest path goes on with its stream",
        ("backends.cuda.run.cuda_graphs:heirs_of",),
        lambda _: lambda _: {},
        ("tests/unit/test_cuda_emit.py::test_the_longest_path_goes_on_with_a_stream_and_goes_first",),
    ),
    Mutant(
        "results take the arrays of operands",
        (f"{_TENSORS}:reused",),
        lambda _: lambda *_: ({}, []),
        ("tests/unit/test_reuse_arrays.py", f"{GOLDEN}::test_decisions"),
    ),
    Mutant(
        "variables are written in place",
        (f"{_TENSORS}:_in_place",),
        _always({}),
        (f"{GOLDEN}::test_program[lenet_digits]",),
    ),
    Mutant(
        "formals that nothing reads are no columns",
        ("compiler.passes.program.build_program:formals_read",),
        lambda _: lambda formals, body: formals,
        ("tests/unit/test_build_program.py::test_formals_that_nothing_reads_are_no_columns",),
    ),
    Mutant(
        "samples stand beside each other in vectors",
        (f"{_TENSORS}:real_lanes",),
        _always(0),
        (f"{TEXTS}::test_a_model_takes_the_strategy[lanes_dense]",),
    ),
    Mutant(
        "large products are row-major",
        ("compiler.strategies.layout:row_major",),
        _argument(0),
        (f"{TEXTS}::test_large_products_are_row_major",),
    ),
    Mutant(
        "chains",
        ("compiler.passes.program.persistent_rnn:_samples",),
        _always(0),
        (f"{TEXTS}::test_the_text_has_it[lstm-cuda-nl_chained(]",),
    ),
    Mutant(
        "chains in clusters of blocks",
        ("compiler.strategies.clustered_rnn:sizes",),
        _always([]),
        ("tests/unit/test_clustered_chains.py::test_matrices_are_divided_among_blocks_of_a_cluster",),
    ),
    Mutant(
        "chains over blocks",
        ("compiler.strategies.spread_rnn:best",),
        _always(None),
        ("tests/unit/test_spread_chains.py::test_matrices_that_no_block_can_have_are_spread",),
    ),
    Mutant(
        "sums of chains on matrix units",
        ("compiler.strategies.spread_rnn:passes",),
        _always(0),
        ("tests/unit/test_spread_chains.py::test_matrix_units_sum_large_matrices",),
    ),
    Mutant(
        "panels of chains divided among blocks",
        ("compiler.strategies.spread_rnn:divided",),
        _always(0),
        ("tests/unit/test_spread_chains.py::test_panels_are_divided_among_blocks",),
    ),
    Mutant(
        "chains at the same time",
        ("compiler.passes.program.persistent_rnn:_abreast",),
        _always([]),
        ("tests/unit/test_spread_chains.py::test_directions_run_at_the_same_time",),
    ),
    Mutant(
        "sums joined within a warp",
        ("compiler.strategies.spread_rnn:_fold",),
        _always(1),
        ("tests/unit/test_spread_chains.py::test_threads_of_a_warp_join_their_sums",),
    ),
    Mutant(
        "what a last step makes for nobody is in no chain",
        ("backends.cuda.persistent.rnn_links:_wanted",),
        lambda _: lambda program, phase, loop, each: range(len(each)),
        ("tests/unit/test_chain_steps.py::test_what_a_last_step_makes_for_nobody_is_in_no_chain",),
    ),
    Mutant(
        "stages of chains repeat",
        ("backends.cuda.persistent.rnn_plan:_times",),
        _always(0),
        ("tests/unit/test_chain_steps.py::test_a_step_is_a_stage",),
    ),
    Mutant(
        "records of chains repeat",
        ("backends.cuda.persistent.rnn_stages:Held.later",),
        lambda _: lambda self, steps: self,
        ("tests/unit/test_chain_steps.py::test_records_of_most_steps_are_those_of_others_moved",),
    ),
    Mutant(
        "samples are fed in the order of steps",
        ("compiler.passes.tensors.simplify_graph:_fed_by_steps",),
        _argument(0),
        ("tests/unit/test_scan.py::test_nothing_is_copied[CpuBackend]",),
    ),
    Mutant(
        "states begin in their places",
        ("compiler.passes.kernels.lower_tensors:own_starts",),
        _argument(0),
        ("tests/unit/test_scan.py::test_nothing_is_copied[CpuBackend]",),
    ),
    Mutant(
        "batch_launches",
        ("compiler.passes.program.batch_launches:gather",),
        lambda _: lambda merged: (merged, []),
        ("tests/unit/test_chains.py::test_what_does_not_wait_is_one_launch",),
    ),
    Mutant(
        "kernels of one text are one template",
        ("compiler.passes.program.merge:digest",),
        _each_alone,
        (f"{PASSES}::test_case[merge.equal]", "tests/cpu/test_merging.py::test_the_example_models_have_few_templates"),
    ),
    Mutant(
        "normalisations are folded into weights",
        ("compiler.passes.pipeline.lower:fold_norms",),
        _exact,
        ("tests/numeric/test_fold_norms.py",),
    ),
    Mutant(
        "equal systems have one exponential",
        ("compiler.passes.cells.cell_columns:exponentials",),
        _each_exponential,
        (f"{TEXTS}::test_equal_systems_have_one_exponential",),
    ),
    Mutant(
        "frozen synapses have no statements",
        ("compiler.passes.model.freeze_learning:freeze_learning",),
        _argument(0),
        (f"{PASSES}::test_case[freeze_learning.frozen]",),
    ),
    Mutant(
        "pairs that follow from positions are not stored",
        ("compiler.passes.model.lower_model:storage_of",),
        _stored,
        (f"{TEXTS}::test_pairs_that_follow_from_positions_are_not_stored",),
    ),
    Mutant(
        "synapses of a stored convolution share values",
        ("compiler.passes.model.lower_model:shares_elements",),
        _always(False),
        (f"{TEXTS}::test_synapses_of_a_stored_convolution_share_its_elements",),
    ),
    Mutant(
        "known deliveries are made at the spike",
        (
            "compiler.passes.model.lower_model:known_delivery",
            "compiler.passes.projections.synapse_arrays:known_delivery",
        ),
        _without_model,
        (f"{TEXTS}::test_a_synapse_that_only_delivers_is_as_none",),
    ),
    Mutant(
        "expressions are simplified",
        ("compiler.expr.simplify:simplify",),
        _argument(0),
        ("tests/unit/test_expr_algebra.py", f"{PASSES}::test_case[integrate_odes.linear]"),
    ),
    Mutant(
        "linear equations are integrated exactly",
        ("compiler.passes.model.integrate_odes:linear_system",),
        _always(None),
        (f"{PASSES}::test_case[integrate_odes.linear]",),
    ),
    Mutant(
        "tensors share memory",
        ("compiler.layout.plan_memory:place",),
        _apart,
        (f"{TEXTS}::test_tensors_share_memory",),
    ),
    *(_strategy(name) for name in STRATEGIES),
    # emitters
    _text("csr_prefetch", f"{_EVENTS}:Due", _always(None), "cuba-cpu-nl_prefetch("),
    _text("toeplitz_simd", f"{_EVENTS}:parts_of", _always(None), "spiking_conv-cpu-channels side by side"),
    Mutant(
        "panels of convolutions prefetch what follows",
        ("backends.cpu.emit.emit:ContractNames.walked",),
        _always([]),
        ("tests/unit/test_rows_conv.py::test_prefetches",),
    ),
    Mutant(
        "sums of long products stay near",
        ("compiler.strategies.cost.cpu:PANEL_SUMS_BYTES",),
        lambda _: 0,
        ("tests/cpu/test_products.py::test_long_sums_pack_one_block_at_a_time",),
    ),
    Mutant(
        "parts of gradients of weights stay in the first cache",
        tuple(f"compiler.strategies.cpu.{n}_conv_weight_gradient:part" for n in ("lanes", "rows")),
        _always(512),
        ("tests/unit/test_rules_of_cores.py::test_parts_of_gradients_stay_in_the_first_cache",),
    ),
    Mutant(
        "what windows see comes from beyond the second cache",
        ("compiler.strategies.cpu.lanes_conv:beyond",),
        _always(0.0),
        ("tests/unit/test_rules_of_cores.py::test_what_is_beside_the_sums",),
    ),
    Mutant(
        "what follows few rows is computed side by side",
        ("compiler.strategies.cpu.rows_dense:BLOCK",),
        lambda _: 4,
        ("tests/cpu/test_products.py::test_what_follows_few_rows_is_computed_for_a_block_of_outputs",),
    ),
    Mutant("copies are built at once", (f"{_PROJECTIONS}.projections:copies_of",), _always(None), (_COPIES,)),
    Mutant("batched_rng of synapses", (f"{_EVENTS}:drawn_in_rows",), _no_draws_of_synapses, (SYNAPSES,)),
    Mutant("values of an event are computed once", (f"{_EVENTS}:once_per_event",), _each_time, (SYNAPSES,)),
    _text(
        "masked loads",
        "backends.cpu.kernels.nest:NestPrinter.masked_rest",
        _always(None),
        "custom_optimizer-cpu-nl_parts_of_rest(",
    ),
    _text("batched_rng", "backends.cpu.kernels.nest:drawn_in_chunks", _no_draws, "stdp-cpu-nl_words("),
    Mutant(
        "columns are summed side by side",
        ("backends.cpu.kernels.column_sums:sums_columns",),
        _always(False),
        (f"{TEXTS}::test_columns_of_row_major_arrays_are_summed_side_by_side",),
    ),
    Mutant(
        "flags of events as wide as values",
        ("backends.cpu.kernels.nest:WIDE",),
        lambda _: 1 << 30,
        ("tests/cpu/test_wide_flags.py",),
    ),
    Mutant(
        "rows of a table are summed once",
        ("backends.cuda.emit.emit:asked_dims",),
        _always(None),
        ("tests/cpu/test_lookups.py::test_a_row_is_summed_once",),
    ),
    _text("two_per_thread", "backends.cuda.kernels.nests.ways:in_pairs", _one_point, "cuba-cuda-nl_many"),
    Mutant(
        "small tiles of products",
        ("compiler.strategies.cuda.matmul:tilings",),
        _large_tiles,
        ("tests/unit/test_direct_conv.py::test_small_products_have_small_tiles_and_no_splits",),
    ),
    _text("neighbours", "backends.cuda.kernels.nests.ways:in_lines", _always(None), "autoencoder-cuda-nl_width"),
    _text(
        "several rows of few columns",
        "backends.cuda.kernels.kernel:_column",
        _whole_warps,
        "mlp-cuda-nl_lanes = nl_lanes_of(",
    ),
    _text(
        "neighbours that share a guard",
        "backends.cuda.kernels.nests.lines:besides",
        lambda found: lambda *args, guarded=False, **named: found(*args, **named),
        "resnet20-cuda-if (nl_has_",
    ),
    _text(
        "neighbours of sums",
        "backends.cuda.kernels.nests.ways:_short_sums",
        _always(None),
        "lenet5-cuda-else nl_each<2>(nl_point)",
    ),
    _text(
        "inverses of extents",
        "backends.cuda.kernels.nests.nest:NestPrinter.taken",
        _plain_division,
        "lenet5-cuda-nl_take(rest, n_ow_, ow_inverse)",
    ),
    Mutant(
        "terms that are not 0",
        ("backends.c_family.point_nest:PointNest._sparse",),
        _always({}),
        (f"{TEXTS}::test_gradients_of_windows_that_overlap_skip_terms_that_are_0",),
    ),
    _text(
        "windows line by line",
        "backends.cuda.kernels.nests.ways:in_registers",
        _argument(1),
        "lenet5-cuda-nl_get_line<2, real>(&",
    ),
    _text(
        "four columns a thread",
        "backends.cuda.kernels.nests.columns:_wide",
        _always(None),
        "mlp-cuda-nl_get_aligned<real>(&",
    ),
    Mutant(
        "operands across in tf32",
        ("compiler.strategies.cuda.stored_products:is_held",),
        _always(False),
        ("tests/unit/test_stored_products.py::test_operands_in_tf32_that_lie_across_come_from_registers",),
    ),
    _text("waves", "backends.cuda.emit.emit:wave_templates", _always(()), "stdp-cuda-nl_wave"),
    Mutant(
        "functions of vectors that many expressions call",
        ("backends.cpu.emit.emit:shared_functions",),
        _always(frozenset()),
        ("tests/unit/test_growth.py::test_functions_that_many_models_call_are_not_copied",),
    ),
    Mutant(
        "kernels of waves for many models",
        ("backends.cuda.waves.waves:MOST_WORK",),
        lambda _: 1 << 40,
        ("tests/unit/test_growth.py::test_units_of_many_models_are_more_but_not_longer",),
    ),
    Mutant(
        "few meetings",
        ("backends.cuda.waves.waves:meetings",),
        _all_meet,
        ("tests/unit/test_cuda_waves.py::test_the_last_wave_of_the_microcircuit_goes_on_in_the_next_step",),
    ),
    Mutant(
        "recording beside deliveries",
        ("backends.cuda.waves.waves:_left",),
        _argument(0),
        ("tests/unit/test_cuda_waves.py::test_spikes_are_recorded_by_blocks_that_deliver_none",),
    ),
    Mutant(
        "maps are compiled in several parts",
        ("backends.cuda.emit.translation_units:_numbered",),
        lambda _: lambda name, templates, most: {name: templates},
        ("tests/unit/test_cuda_emit.py::test_every_kernel_is_in_one_part",),
    ),
    Mutant(
        "deliveries shared by the events of a step",
        ("backends.cuda.waves.waves:shared_delivery",),
        _always(None),
        ("tests/unit/test_cuda_waves.py::test_all_blocks_without_neurons_share_the_rows_of_a_delivery",),
    ),
    Mutant(
        "the deliveries of a wave lie together",
        ("backends.cuda.waves.waves:WORDS",),
        lambda _: 0,
        ("tests/unit/test_cuda_waves.py::test_the_deliveries_of_a_wave_lie_together[microcircuit]",),
    ),
    Mutant(
        "counts for one neuron at a time",
        ("backends.cuda.kernels.nests.ways:_LONG",),
        lambda _: (),
        ("tests/unit/test_cuda_waves.py::test_inputs_of_many_events_are_drawn_one_at_a_time",),
    ),
    Mutant(
        "values that are rounded to bf16 come from coarse functions",
        ("backends.cuda.emit.emit:COARSE",),
        lambda _: frozenset(),
        (f"{TEXTS}::test_values_that_are_rounded_to_bf16_come_from_coarse_functions",),
    ),
    Mutant(
        "rows are read and written several neighbours at a time",
        ("backends.cuda.kernels.nests.shared:rows_in_lines",),
        _always(None),
        (f"{TEXTS}::test_rows_are_read_and_written_several_neighbours_at_a_time",),
    ),
    Mutant(
        "products of one launch split their sums as it needs",
        ("compiler.passes.program.resplit_products:resplit",),
        lambda _: lambda merged, *_: (merged, []),
        (f"{TEXTS}::test_products_of_one_launch_split_their_sums_as_it_needs",),
    ),
    Mutant(
        "maps of bf16 are optimised",
        ("backends.cuda.emit.translation_units:_is_narrow",),
        _always(False),
        (f"{TEXTS}::test_maps_of_bf16_are_optimised",),
    ),
    Mutant(
        "large maps of bf16 have few blocks",
        ("compiler.strategies.cost.cuda:LONG_BLOCKS",),
        lambda _: 32,
        (f"{TEXTS}::test_blocks_of_large_maps_of_bf16_are_few",),
    ),
    Mutant(
        "epilogues of products take sixteen bytes of bf16",
        ("backends.cuda.kernels.stores:many_of",),
        _always(4),
        (f"{TEXTS}::test_epilogues_of_stored_products_take_sixteen_bytes",),
    ),
    Mutant(
        "epilogues of convolutions divide no index",
        ("compiler.passes.kernels.lower_tensors:_is_flat",),
        _always(False),
        (f"{TEXTS}::test_epilogues_of_convolutions_divide_no_index",),
    ),
    Mutant(
        "shapes of tiles that no row has are not printed",
        ("backends.cuda.kernels.contract:numbers_of",),
        _always(None),
        ("tests/unit/test_cuda_emit.py",),
    ),
    Mutant(
        "products share kernels",
        ("backends.cuda.kernels.contract:shared_name",),
        _own_name,
        (f"{TEXTS}::test_products_of_several_templates_are_one_kernel",),
    ),
    Mutant(
        "translation units",
        ("backends.cuda.emit.emit:parts_of",),
        _one_part,
        ("tests/unit/test_cuda_emit.py",),
    ),
)

# ---------------------------------------------------------------------------------- as a plugin of pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--mutant", help="the optimization that is switched off")


def pytest_configure(config: pytest.Config) -> None:
    mutant = next(m for m in MUTANTS if m.name == config.getoption("--mutant"))
    for owner, name in map(found, mutant.places):
        setattr(owner, name, mutant.instead(getattr(owner, name)))


def found(place: str) -> tuple[Any, str]:
    """The module or class that a place is in, and its name there."""
    module, _, path = place.partition(":")
    *owners, name = path.split(".")
    owner = importlib.import_module(module)
    for part in owners:
        owner = getattr(owner, part)
    return owner, name


# ----------------------------------------------------------------------------------------- as a command


def tested(tests: Sequence[str], mutant: str | None = None) -> int:
    """The exit status of pytest: 0 where all tests pass, 1 where one fails; anything else is a mistake."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-m", "not slow and not gpu and not nvrtc", *tests]
    command += ["-p", "no:cacheprovider"] if mutant is None else ["-p", "scripts.mutants", "--mutant", mutant]
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode


def verdict(mutant: Mutant) -> str:
    status = tested(mutant.tests, mutant.name)
    return {0: "NOT NOTICED", 1: "noticed"}.get(status, f"MISTAKE (pytest ended with {status})")


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Switch optimizations off; a test has to notice.")
    parser.add_argument("names", nargs="*", help=f"of {', '.join(m.name for m in MUTANTS)}")
    names = parser.parse_args(words).names
    if unknown := set(names) - {m.name for m in MUTANTS}:
        parser.error(f"there is no mutant {', '.join(sorted(unknown))}")
    chosen = [m for m in MUTANTS if m.name in names or not names]
    if tested(sorted({t for m in chosen for t in m.tests})):
        print("the tests fail without a mutant")
        return 1
    failed = False
    with ThreadPoolExecutor(2) as pool:
        for mutant, said in zip(chosen, pool.map(verdict, chosen), strict=True):
            print(f"{mutant.name:<50} {said}", flush=True)
            failed |= said != "noticed"
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
