"""Every construct of the spiking language as CUDA: all of their kernels in one text, compiled without a GPU."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from backends.cuda.emit.compile import compile_text
from backends.cuda.emit.emit import emit
from compiler.ir.level2.program import Connect, EmitScheduled, Merged, Nest, Propagate, Template
from tests.construct_runs import construct, lowered
from tests.constructs import CONSTRUCTS

ROOT = Path(__file__).parents[2]


@cache
def one_program(folder: Path, precision: str, order: str) -> Merged:
    """The templates of all constructs, each once."""
    found: dict[str, Template] = {}
    first: Merged | None = None
    for k, name in enumerate(CONSTRUCTS):
        place = folder / f"{precision}-{order}-{k}"
        place.mkdir()
        program = lowered(construct(name, place, precision, order), "cuda")
        first = first or program
        for t in program.templates:
            found.setdefault(t.digest, replace(t, index=len(found)))
    assert first is not None
    return replace(first, name="constructs", templates=tuple(found.values()), tables=(), arrays=(), phases=())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("constructs")


@pytest.mark.nvrtc
@pytest.mark.parametrize(
    ("arch", "precision", "order"),
    [
        ("sm_80", "float32", "bitwise"),
        ("sm_90", "float32", "bitwise"),
        ("sm_100", "float32", "bitwise"),
        pytest.param("sm_90", "float64", "bitwise", marks=pytest.mark.slow),
        pytest.param("sm_90", "float32", "reproducible", marks=pytest.mark.slow),
        pytest.param("sm_90", "float32", "fast", marks=pytest.mark.slow),
    ],
)
def test_all_constructs_compile(folder: Path, arch: str, precision: str, order: str) -> None:
    program = one_program(folder, precision, order)
    artifact = compile_text(emit(program), "constructs", order == "bitwise", arch)
    parts = (artifact.binary, *artifact.beside)
    code = [part.read_bytes() for part in parts]
    assert all(x.startswith(b"\x7fELF") for x in code)
    assert all(f".target {arch}" in part.with_suffix(".ptx").read_text() for part in parts)
    for t in program.templates:
        assert any(f"k{t.index}_".encode() in x for x in code), t.name


@pytest.mark.nvrtc  # beside the test before, which needs the same program
def test_all_kinds_of_kernels_of_spiking_networks_are_there(folder: Path) -> None:
    program = one_program(folder, "float32", "bitwise")
    assert {type(t.body) for t in program.templates} >= {Nest, Propagate, Connect, EmitScheduled}
    rules = {t.body.rule for t in program.templates if isinstance(t.body, Connect)}
    assert rules >= {"fixed_probability", "fixed_total", "fixed_indegree", "fixed_outdegree", "expression"}


def test_structures_have_names_of_their_own() -> None:
    """Whatever kernels are compiled together: no structure is called as one, or a function, of another template is."""
    kind = r"(?:template <.*> )?(?:struct (?:\w+\(.*?\) )?(nl_\w+)[ <]|(?:NL_\w+|extern|static).*?\b(nl_\w+)\()"
    structures, places = set[str](), defaultdict[str, set[str]](set)
    for path in (ROOT / "backends" / "cuda" / "templates").glob("*.cu.j2"):
        if path.name.startswith(("store_", "product_")):  # of functions
            continue
        for found in filter(None, map(re.compile(kind).match, path.read_text().splitlines())):
            places[found[1] or found[2]].add(path.name)
            structures |= {found[1]} if found[1] else set()
    assert {name: places[name] for name in structures if len(places[name]) > 1} == {}
