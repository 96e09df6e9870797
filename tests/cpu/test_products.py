"""Products of matrices in packed panels against the definition of a contraction (numpy, float64)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from backends.cpu.backend import LANES, CpuBackend
from compiler.frontend.load import load_model
from compiler.ir.level1.graph import Contract, Map, Tensor
from compiler.ir.level2.target import Target
from compiler.ir.space import DType, along
from compiler.passes.pipeline.lower import lower_predict
from compiler.passes.program.merge import merge
from compiler.strategies.choice import NotApplicable, product
from compiler.strategies.cost.devices import CORE, MEASURED_CORE
from compiler.strategies.cpu import rows_dense, rows_panels, rows_product
from tests.cpu.contractions import PRODUCT, Case, Conv, conv, gradient, program
from tests.cpu.test_strategies import DOUBLE, REALS, SINGLE, check, with_epilogue
from tests.grids import diagonal

pytestmark = pytest.mark.usefixtures("cc")


def einsum(spec: str, **extents: int) -> tuple[Contract, dict[str, Tensor]]:
    """A contraction in the notation of numpy.einsum; the batch is called n."""
    ins, out = spec.split("->")
    walks = {"y": out, **dict(zip("xw", ins.split(","), strict=True))}
    tensors = {t: Tensor(t, tuple(extents[d] for d in w), "real", w[0] == "n") for t, w in walks.items()}
    dims = tuple((d, extents[d]) for d in (*out, *sorted(set(ins) - {*out, ","})))
    maps = {t: tuple(along(d) for d in w) for t, w in walks.items()}
    return Contract(tensors["y"], dims, maps["y"], ("x", "w"), (maps["x"], maps["w"]), PRODUCT), tensors


def packed(
    problem: tuple[Contract, dict[str, Tensor]],
    real: DType,
    after: Map | None = None,
    lanes: bool = False,
    device: Target = MEASURED_CORE,
) -> Case:
    found = product(*problem, LANES * 4 // real.bytes if lanes else 0, real.bytes, device)
    choice = rows_product.match_lanes(found) if lanes else rows_product.match(found)
    return Case(*problem, choice, after)


CASES = [
    *(
        (spec, {"n": n, "o": o, "k": k})
        for spec in ("nk,ok->no", "nk,ko->no", "no,nk->ok", "nk,no->ok")
        for n, o, k in ((1, 1, 1), (5, 17, 3), (8, 33, 16), (16, 48, 241), (17, 10, 500), (130, 70, 24), (3, 2100, 31))
    ),
    *(
        (spec, {"n": n, "t": 5, "o": 18, "k": 35})
        for spec in ("ntk,ok->nto", "ntk,nto->ko", "nto,ok->ntk", "tnk,nto->ok")
        for n in (1, 5, 16, 17)
    ),
    *(
        (spec, {"n": n, "h": 3, "q": 13, "k": 21, "d": 8})
        for spec in ("nqhd,nkhd->nhqk", "nhqk,nkhd->nqhd", "nhqd,nkhd->nhqk", "nqhd,nhqk->nkhd", "nhqk,nhkd->nhqd")
        for n in (1, 5, 8)
    ),
    ("nd,d->n", {"n": 7, "d": 40}),
    ("nab,cdab->ncd", {"n": 4, "a": 3, "b": 7, "c": 2, "d": 9}),
    ("nk,kba->nab", {"n": 3, "k": 5, "a": 16, "b": 2}),
    ("nk,kba->nab", {"n": 3, "k": 5, "a": 2, "b": 16}),
    ("anb,nc->abc", {"n": 300, "a": 13, "b": 3, "c": 19}),
]


@pytest.mark.parametrize("real", DOUBLE)
def test_products(real: DType, tmp_path: Path) -> None:
    """All transposes, sequences, attention, sums over several dims: sizes around the tiles' and the blocks'."""
    check([packed(einsum(spec, **extents), real) for spec, extents in CASES], real, tmp_path, row_major=True)


@pytest.mark.parametrize("real", SINGLE)
def test_rows_whose_terms_are_neighbours(real: DType, tmp_path: Path) -> None:
    """Read where they lie, copied, or packed on a core that starts two multiply-adds a cycle: rows around tiles and
    blocks, terms around vectors and blocks, columns around those from which on they are."""
    sizes = ((5, 64, 3), (5, 65, 16), (12, 97, 15), (13, 130, 17), (30, 129, 250), (150, 300, 241), (40, 600, 31))
    problems = [einsum(spec, n=n, o=o, k=k) for spec in ("nk,ok->no", "nk,ko->no") for n, o, k in sizes]
    problems += [einsum("nqhd,nkhd->nhqk", n=3, h=2, q=19, k=100, d=33), einsum("ntk,ok->nto", n=5, t=9, o=70, k=35)]
    problems.append(conv(Conv(3, 9, 14, 12, 13, (3, 3))))
    cases = [packed(p, real, device=device) for p in problems for device in (CORE, MEASURED_CORE)]
    ways = [dict(c.choice.columns).get("s_copy") for c in cases if c.choice is not None]
    assert {0, 2} <= set(ways[::2]) and {0, 1} <= set(ways[1::2]) and 2 not in ways[1::2]
    check(cases, real, tmp_path, row_major=True)


@pytest.mark.parametrize("real", DOUBLE)
def test_epilogues(real: DType, tmp_path: Path) -> None:
    cases = []
    for spec, text, *others in (
        ("ntk,ok->nto", "relu(x0 + x1) + x2", ("b", (2,)), ("q", (0, 1, 2))),
        ("ntk,ok->nto", "x0 * x1 + x2", ("b", (1, 2)), ("q", (0,))),
        ("nto,ntk->ok", "x1 - 0.5 * x0", ("q", (0, 1))),
        ("nhtk,nohk->nhto", "x0 + x1", ("b", (1, 3))),
        ("nk,tok->nto", "x0 + x1", ("b", (2,))),
    ):
        problem, after = with_epilogue(einsum(spec, n=5, t=14, o=37, k=11, h=2), text, *others)
        cases.append(packed(problem, real, after))
    check(cases, real, tmp_path, row_major=True)


@pytest.mark.parametrize("real", SINGLE)
def test_weights_in_panels(real: DType, tmp_path: Path) -> None:
    """Outputs around panels and strips; rows around tiles and blocks, terms around those of a block."""
    cases = []
    few = ((1, 1, 3), (1, 130, 16), (1, 300, 7), (2, 33, 40), (3, 64, 16), (4, 131, 5))
    many = ((5, 40, 17), (8, 17, 4100), (9, 33, 1010), (12, 64, 7), (13, 70, 250), (30, 65, 480), (270, 1030, 243))
    for n, o, k in (*few, *many):
        (node, tensors), after = with_epilogue(einsum("nk,ok->no", n=n, o=o, k=k), "relu(x0 + x1)", ("b", (1,)))
        tensors["w"] = replace(tensors["w"], panel=rows_panels.panel_of(real.bytes))
        cases.append(Case(node, tensors, rows_panels.match(product(node, tensors, 0, real.bytes)), after))
    check(cases, real, tmp_path, row_major=True)


def test_large_weights_of_predictions_are_packed_for_many_rows(tmp_path: Path) -> None:
    """Also where lanes would do without panels: 4,096 features lie so that rows push each other out of the cache. On a
    core that starts one multiply-add a cycle; on others both take as long."""
    device = replace(MEASURED_CORE, caches=CORE.caches)
    path = tmp_path / "net.yaml"
    path.write_text(
        "language: 1\nname: net\nnetwork:\n  inputs: {x: {shape: [4096]}}\n  layers:\n"
        "    - dense: {name: wide, units: 4096}\n    - dense: {name: small, units: 10}\n"
    )
    for batch, names in ((8, {"wide.weight"}), (64, set()), (256, {"wide.weight"})):
        lowered = lower_predict(load_model(path), replace(CpuBackend().capabilities, device=device), batch).lowered
        packed = {d.subject.split()[-1] for d in lowered.decisions if d.pass_name == "pack_panels"}
        assert packed == names


@pytest.mark.parametrize("real", REALS.values())
def test_few_rows(real: DType, tmp_path: Path) -> None:
    """Batches around those that share what is read of the weights, outputs around tiles and blocks."""
    cases = []
    for n, o, k in (
        (1, 1, 3),
        (1, 17, 16),
        (1, 130, 40),
        (2, 64, 7),
        (3, 65, 33),
        (4, 5, 48),
        (5, 37, 16),
        (9, 66, 21),
    ):
        problem, after = with_epilogue(
            einsum("nk,ok->no", n=n, o=o, k=k), "tanh(x0 + x1) * x2", ("b", (1,)), ("q", (0, 1))
        )
        cases.append(Case(*problem, rows_dense.match(product(*problem, 0, real.bytes)), after))
    check(cases, real, tmp_path, row_major=True)


def test_what_follows_few_rows_is_computed_for_a_block_of_outputs() -> None:
    for batch, block in ((1, 64), (4, 64), (5, 16)):
        case = rows_dense.match(product(*einsum("nk,ok->no", n=batch, o=100, k=9), 0, 4))
        assert dict(case.columns)["s_block"] == block


CONVS = [
    Conv(16, 7, 5, 6, 5, (1, 1)),
    Conv(32, 5, 6, 7, 9, (1, 1), stride=(2, 2)),  # in lanes, sums over blocks, rows, columns and lanes
    Conv(32, 3, 18, 9, 8, (3, 2)),
    Conv(16, 20, 13, 9, 9, (3, 3), stride=(2, 3)),
    Conv(48, 2, 3, 7, 11, (3, 3), dilate=2),
    Conv(16, 6, 4, 6, 6, (2, 3), groups=2),
]


@pytest.mark.parametrize(("lanes", "real"), diagonal([False, True], list(REALS.values())))
def test_convolutions(real: DType, lanes: bool, tmp_path: Path) -> None:
    """Forward and to the weights, to the input for a window of one pixel; batches that do not fill the lanes."""
    cases = [packed(conv(Conv(5, 9, 14, 6, 7, (3, 3))), real, None, lanes)]
    problem, after = with_epilogue(conv(Conv(20, 9, 14, 6, 7, (3, 3))), "relu(x0 + x1)", ("b", (1,)))
    cases.append(packed(problem, real, after, lanes))
    for c in CONVS:
        forward = conv(c if c.kernel == (1, 1) else replace(c, batch=LANES * 4 // real.bytes))
        cases += [packed(forward, real, None, lanes), packed(gradient(*forward, 1), real, None, lanes)]
    cases.append(packed(gradient(*conv(CONVS[0]), 0), real, None, lanes))
    if not lanes:  # rows of 24 terms, of which a vector's lanes are neighbours in part
        cases.append(packed(gradient(*conv(Conv(3, 2, 6, 28, 28, (5, 5))), 1), real, None))
    check(cases, real, tmp_path, row_major=not lanes)


def test_lanes_without_a_sample_are_not_summed() -> None:
    found = product(*gradient(*conv(Conv(20, 3, 4, 5, 5, (1, 1))), 1), LANES, 4)
    with pytest.raises(NotApplicable, match="some lanes have no sample"):
        rows_product.match_lanes(found)


def test_long_sums_pack_one_block_at_a_time() -> None:
    """The gradient of the weights of a 1 x 1 convolution: sums of all rows stay near while 12,544 terms go by, of which
    a block is packed at a time, of the operand with fewer rows; the other one's terms, which are neighbours, are read
    where they lie."""
    case = packed(gradient(*conv(Conv(16, 256, 128, 28, 28, (1, 1))), 1), DType.F32, None, True)
    assert case.choice is not None
    columns = dict(case.choice.columns)
    assert columns["s_high"] < 256 <= columns["s_tall"] and columns["s_wide"] < 256
    assert case.choice.scratch_bytes < 4 * 256 * 12_544 / 10
    text = CpuBackend().emit(merge(program([case], DType.F32)))
    assert not columns["s_copy"] and "nl_turn_panels(" in text and "nl_line_panels(" in text


@pytest.mark.parametrize("real", REALS.values())
def test_column_sums(real: DType, tmp_path: Path) -> None:
    """Gradients of biases and norms: nests that sum columns side by side."""
    cases = []
    for o in (1, 7, 512, 1030):
        for spec in ("nto,nto->o", "nto,nt->o", "nto,nto->to", "nto,o->o"):
            sums = einsum(spec, n=5, t=9, o=o)
            problem, after = with_epilogue(sums, "x0 + 2 * x1", ("q", (len(sums[0].out.shape) - 1,)))
            cases.append(Case(*problem, None, after))
    check(cases, real, tmp_path, row_major=True)


def test_text_does_not_depend_on_sizes() -> None:
    def text(*sizes: int) -> str:
        cases = [packed(einsum("ntk,ok->nto", n=n, t=7, o=33, k=n), DType.F32) for n in sizes]
        return CpuBackend().emit(merge(program(cases, DType.F32, row_major=True)))

    assert text(8) == text(8, 300)


def test_lanes_are_refused() -> None:
    found = product(*einsum("nk,ok->no", n=16, o=4, k=4), LANES, 4)
    with pytest.raises(NotApplicable, match="not row-major"):
        rows_product.match(found)
