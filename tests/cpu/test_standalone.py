"""`netloom build --standalone`: one C file, compiled by plain cc, gives the bits of `netloom predict`."""

from __future__ import annotations

import ctypes
import os
import shlex
import subprocess
from pathlib import Path

import numpy as np
import pytest

from compiler.core.diagnostics import RunError
from compiler.runtime.common.options import Options
from compiler.runtime.inference.predict import predict_file
from compiler.runtime.inference.standalone import build_standalone
from tests.cpu.networks_for_use import samples, write_network
from tests.grids import diagonal

pytestmark = pytest.mark.usefixtures("cc", "here", "not_optimized")

LAYERS = """
conv2d: {name: a, inputs: image, filters: 5, kernel: 3, padding: same, bias: false}
batch_norm: {name: n1}
activation: {name: r1, function: gelu}
max_pool2d: {name: p, size: 2}
flatten: {name: f}
embedding: {name: e, inputs: words, count: 2, size: 3}
flatten: {name: g}
concat: {name: both, inputs: [f, g]}
dense: {name: logits, units: 4}
softmax: {name: double, inputs: logits}
"""
INPUTS = "{image: {shape: [2, 8, 8]}, words: {shape: [3], dtype: int32}}"
HARMLESS = {"_ITM_deregisterTMCloneTable", "_ITM_registerTMCloneTable", "__cxa_finalize", "__gmon_start__",
            "memset", "memcpy", "memmove"}  # fmt: skip
"""Symbols that every compiler may require; the memory functions are part of each freestanding environment."""


def _compiled(files: tuple[Path, ...], *flags: str) -> ctypes.CDLL:
    command = shlex.split(os.environ.get("CC", "")) or ["cc"]
    library = files[0].with_suffix(".so").absolute()
    subprocess.run(
        [
            *command,
            "-O2",
            "-std=c11",
            "-Wall",
            "-Wextra",
            "-Werror",
            *flags,
            "-fPIC",
            "-shared",
            str(files[0].absolute()),
            "-o",
            str(library),
        ],
        check=True,
        cwd=files[0].parent,
    )
    return ctypes.CDLL(str(library))


def _called(function: object, arrays: list[np.ndarray]) -> int:
    return function(*(a.ctypes.data_as(ctypes.c_void_p) for a in arrays))  # type: ignore[operator, no-any-return]


PREDICTED = [
    (1, "reproducible", "float32"),
    (5, "reproducible", "float32"),
    (20, "reproducible", "float32"),
    (1, "bitwise", "float64"),
    (17, "bitwise", "float32"),
]


@pytest.mark.parametrize(("predicted", "embed"), diagonal(PREDICTED, [False, True]))
def test_bits_of_predict(here: Path, embed: bool, predicted: tuple[int, str, str]) -> None:
    batch, order, precision = predicted
    path = write_network(here, INPUTS, LAYERS)
    options = Options(portable=True, order=order, precision=precision)
    files = build_standalone(path, options, embed, batch, ("double", "n1")).files
    assert [f.name for f in files] == ["net.c", "net.h", *["net.bin"] * (not embed)]
    lib = _compiled(files)
    real = np.float32 if precision == "float32" else np.float64
    for seed in (1, 2):
        given = samples(path, batch, seed)
        expected = predict_file(path, given, options, None, ("double", "n1"), batch).outputs
        arrays = [given["image"].astype(real), given["words"]]
        arrays += [np.full(expected[n].shape, 7, real) for n in ("double", "n1")]
        if not embed and seed == 1:
            assert _called(lib.net_predict, arrays) == -1
            data = files[2].read_bytes()
            assert lib.net_load(data, ctypes.c_ulong(len(data) - 1)) == -1
            assert lib.net_load(b"x" + data[1:], ctypes.c_ulong(len(data))) == -1
            assert lib.net_load(data, ctypes.c_ulong(len(data))) == 0
        assert _called(lib.net_predict, arrays) == 0
        assert arrays[2].tobytes() == expected["double"].tobytes()
        assert arrays[3].tobytes() == expected["n1"].tobytes()


@pytest.mark.parametrize("batch", [1, 16])
def test_steps_of_a_sequence_are_a_loop(here: Path, batch: int) -> None:
    """The states of one layer are an output, too, and the last ones of another."""
    layers = """
gru: {name: all, inputs: rows, units: 4, sequence: true}
lstm: {name: last, inputs: all, units: 3, bidirectional: true}
dense: {name: logits, inputs: last, units: 2}
"""
    path = write_network(here, "{rows: {shape: [5, 3]}}", layers)
    names = ("logits", "all", "last")
    files = build_standalone(path, Options(portable=True), True, batch, names).files
    assert "static const nl_loop nl_loops[] = {" in files[0].read_text()
    lib = _compiled(files)
    for seed in (1, 2):
        given = samples(path, batch, seed)
        expected = predict_file(path, given, Options(portable=True), None, names, batch).outputs
        outputs = [np.full(expected[n].shape, 7, np.float32) for n in names]
        assert _called(lib.net_predict, [given["rows"], *outputs]) == 0
        for name, found in zip(names, outputs, strict=True):
            assert found.tobytes() == expected[name].tobytes()


def test_it_needs_nothing(here: Path) -> None:
    """Neither headers of the system beyond the processor's, nor functions, nor memory; and its names are its own."""
    path = write_network(here, INPUTS, LAYERS)
    files = build_standalone(path, Options(portable=True), True).files
    text = files[0].read_text()
    includes = {line for line in text.splitlines() if line.startswith("#include")}
    assert includes <= {'#include "net.h"', "#include <emmintrin.h>"}
    _compiled(files, "-ffreestanding")
    library = files[0].with_suffix(".so").absolute()
    listed = subprocess.run(["nm", "-D", str(library)], check=True, capture_output=True, text=True).stdout
    wanted = {line.split()[-1].split("@")[0] for line in listed.splitlines() if line.split()[-2] in "Uw"}
    assert wanted <= HARMLESS
    made = {line.split()[-1] for line in listed.splitlines() if line.split()[-2] == "T"} - {"_init", "_fini"}
    assert made == {"net_predict"}


def test_what_does_not_fit(here: Path) -> None:
    path = write_network(here, INPUTS, LAYERS)
    with pytest.raises(RunError, match="for the target `cpu`"):
        build_standalone(path, Options("cuda"))
    with pytest.raises(RunError, match="--batch is at least 1"):
        build_standalone(path, Options(), batch=0)


def test_names_that_c_does_not_allow(here: Path) -> None:
    layers = "dense: {name: double, inputs: int, units: 2}\nadd: {name: net, inputs: [double, double]}"
    path = write_network(here, "{int: {shape: [3]}}", layers)
    files = build_standalone(path, Options(portable=True), True).files
    lib = _compiled(files)
    x = samples(path, 1)["int"]
    out = np.zeros((1, 2), np.float32)
    assert _called(lib.net_predict, [x, out]) == 0
    np.testing.assert_array_equal(out, predict_file(path, x, Options(portable=True), batch=1).outputs["net"])
