"""Samples of every file format train to the same weights as .npz; stratified and k-fold splits."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

from compiler.core.diagnostics import ModelError
from compiler.files.array_files import headers, read_array
from compiler.ir.level0.model import Kept
from compiler.runtime.common.options import Options
from compiler.runtime.inference.predict import evaluate_file
from compiler.runtime.training.data import split
from netloom import run
from tests.cpu.models_for_runs import DIGITS, write

pytestmark = pytest.mark.usefixtures("cc", "here", "not_optimized", "without_plots")

SAMPLES = 300
OWN = "    inputs: {image: {file: IMAGE}, label: {file: LABEL}}\n"
FROM_NPZ = "    file: digits.npz\n    inputs: {image: flat, label: labels}\n"


def write_idx(path: Path, values: np.ndarray, code: int, order: str) -> None:
    """An IDX file by its description: magic number, extents and elements, all big-endian."""
    raw = (
        bytes([0, 0, code, values.ndim])
        + struct.pack(f">{values.ndim}I", *values.shape)
        + values.astype(order).tobytes()
    )
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)


@pytest.fixture
def samples(here: Path, root: Path) -> tuple[np.ndarray, np.ndarray]:
    with np.load(root / "models" / "data" / "digits.npz") as file:
        x, y = file["flat"][:SAMPLES], file["labels"][:SAMPLES]
    np.savez(here / "digits.npz", flat=x, labels=y)
    return x, y


def trained(here: Path, source: str, name: str = "other.yaml") -> dict[str, np.ndarray]:
    assert FROM_NPZ in DIGITS
    return run(write(here, DIGITS.replace(FROM_NPZ, source), name), epochs=1).weights()


def equal(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> bool:
    return a.keys() == b.keys() and all(np.array_equal(a[n], b[n]) for n in a)


# --------------------------------------------------------------------------------------------- formats


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_idx(here: Path, samples: tuple[np.ndarray, np.ndarray], suffix: str) -> None:
    x, y = samples
    write_idx(here / f"train-images-idx2-ubyte{suffix}", x, 0x08, ">u1")
    write_idx(here / f"train-labels-idx1-ubyte{suffix}", y, 0x08, ">u1")
    text = OWN.replace("IMAGE", f"train-images-idx2-ubyte{suffix}").replace("LABEL", f"train-labels-idx1-ubyte{suffix}")
    assert equal(trained(here, text), trained(here, FROM_NPZ, "npz.yaml"))


@pytest.mark.parametrize(
    ("code", "order"), [(0x08, ">u1"), (0x09, ">i1"), (0x0B, ">i2"), (0x0C, ">i4"), (0x0D, ">f4"), (0x0E, ">f8")]
)
def test_types_of_idx(here: Path, code: int, order: str) -> None:
    values = np.arange(24).reshape(2, 3, 4)
    write_idx(here / "v.idx", values, code, order)
    found = read_array(here / "v.idx", None)
    assert np.array_equal(found, values)
    header = headers(here / "v.idx")[""]
    assert (header.shape, header.dtype) == ((2, 3, 4), str(found.dtype)) == ((2, 3, 4), str(np.dtype(order[1:])))


def test_idx_that_is_broken(here: Path) -> None:
    write_idx(here / "v.idx", np.arange(6).reshape(2, 3), 0x08, ">u1")
    whole = (here / "v.idx").read_bytes()
    for raw, reason in (
        (whole[:-1], "5 bytes of numbers, not 6"),
        (whole[:6], "within its header"),
        (b"PK\3\4", "not an"),
    ):
        (here / "w.idx").write_bytes(raw)
        with pytest.raises(ValueError, match=reason):
            read_array(here / "w.idx", None)
    (here / "w.idx.gz").write_bytes(gzip.compress(whole)[:-9])
    with pytest.raises(ValueError, match="ended before"):
        read_array(here / "w.idx.gz", None)


def test_npy(here: Path, samples: tuple[np.ndarray, np.ndarray]) -> None:
    np.save(here / "x.npy", samples[0])
    np.save(here / "y.npy", samples[1])
    text = OWN.replace("IMAGE", "x.npy").replace("LABEL", "y.npy")
    assert equal(trained(here, text), trained(here, FROM_NPZ, "npz.yaml"))


def write_csv(here: Path, samples: tuple[np.ndarray, np.ndarray]) -> str:
    names = [f"p{k}" for k in range(64)]
    table = np.column_stack([samples[0], samples[1]])
    np.savetxt(here / "t.csv", table, delimiter=",", header=",".join([*names, "digit"]), comments="", fmt="%g")
    return ", ".join(names)


def test_csv(here: Path, samples: tuple[np.ndarray, np.ndarray]) -> None:
    columns = write_csv(here, samples)
    expected = trained(here, FROM_NPZ, "npz.yaml")
    assert equal(
        trained(here, f"    file: t.csv\n    inputs: {{image: {{columns: [{columns}]}}, label: digit}}\n"), expected
    )
    own = f"    inputs: {{image: {{file: t.csv, columns: [{columns}]}}, label: {{file: t.csv, array: digit}}}}\n"
    assert equal(trained(here, own, "own.yaml"), expected)


def test_csv_with_a_measurement_for_a_label(here: Path, samples: tuple[np.ndarray, np.ndarray]) -> None:
    columns = write_csv(here, (samples[0], samples[1] + 0.5))
    with pytest.raises(ModelError, match="needs whole numbers"):
        trained(here, f"    file: t.csv\n    inputs: {{image: {{columns: [{columns}]}}, label: digit}}\n")


def test_parquet(here: Path, samples: tuple[np.ndarray, np.ndarray]) -> None:
    import pyarrow as arrow
    from pyarrow import parquet

    table = arrow.table({"pixels": samples[0].tolist(), "digit": samples[1], "text": ["a"] * SAMPLES})
    parquet.write_table(table, here / "t.parquet")
    text = "    file: t.parquet\n    inputs: {image: pixels, label: digit}\n"
    assert equal(trained(here, text), trained(here, FROM_NPZ, "npz.yaml"))
    with pytest.raises(ModelError, match="holds string, not numbers"):
        trained(here, text.replace("label: digit", "label: text"), "text.yaml")
    ragged = arrow.table({"pixels": [[1, 2], [3]], "digit": [0, None]})
    parquet.write_table(ragged, here / "r.parquet")
    with pytest.raises(ValueError, match="not of one length"):
        read_array(here / "r.parquet", "pixels")
    with pytest.raises(ValueError, match="1 missing"):
        read_array(here / "r.parquet", "digit")


# ---------------------------------------------------------------------------------------------- splits


def test_folds_are_parts() -> None:
    kept = [split(103, Kept(0.0, 5, k), 7) for k in range(5)]
    assert sorted(np.concatenate([v for _, v in kept]).tolist()) == list(range(103))
    assert [len(v) for _, v in kept] == [21, 21, 21, 20, 20] == [Kept(0.0, 5, k).count(103) for k in range(5)]
    for train, validation in kept:
        assert sorted([*train, *validation]) == list(range(103))
    assert not np.array_equal(kept[0][1], split(103, Kept(0.0, 5, 0), 8)[1])


@pytest.mark.parametrize("kept", [Kept(0.2), Kept(0.0, 5, 0), Kept(0.0, 5, 4)])
def test_strata(here: Path, kept: Kept) -> None:
    labels = np.repeat([0, 1, 2], [100, 45, 7])
    np.save(here / "y.npy", np.random.default_rng(1).permutation(labels))
    labels = np.load(here / "y.npy")
    stratified = Kept(kept.fraction, kept.folds, kept.fold, (str(here / "y.npy"), ""))
    train, validation = split(152, stratified, 3)
    assert len(validation) == stratified.count(152)
    assert sorted([*train, *validation]) == list(range(152))
    share = np.bincount(labels[validation], minlength=3)
    assert np.all(np.abs(share - np.array([20, 9, 1.4])) < 1.5)
    assert not np.array_equal(validation, split(152, stratified, 4)[1])


def test_a_run_with_folds_and_strata(here: Path, samples: tuple[np.ndarray, np.ndarray]) -> None:
    """`evaluate` measures the samples that the run kept."""
    for k, text in enumerate(("{folds: 4, fold: 3, stratify: label}", "{validation: 0.3, stratify: label}")):
        path = write(here, DIGITS.replace("{validation: 0.25}", text), f"m{k}.yaml")
        result = run(path, epochs=2)
        found = evaluate_file(result.folder, Options())
        assert found.metrics["accuracy"] == result.metrics["validation_accuracy"]
        assert found.metrics["loss"] == result.metrics["validation_loss"]
        assert found.samples == (75 if k == 0 else 90)
