"""Endless files, or files with oversized declared contents: rejected at once, in little memory."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import resource
import signal
import struct
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import h5py
import numpy as np
import pytest

from compiler.cli.__main__ import open_streams
from compiler.core.diagnostics import ModelError, RunError
from compiler.core.disk import write_text
from compiler.core.strict_json import dumps
from compiler.files.array_files import headers, read_array
from compiler.files.array_rows import array_parts, open_rows
from compiler.files.csv_files import read_columns, read_table
from compiler.frontend.load import load_model
from compiler.ir.level2.target import Capabilities, Target
from compiler.passes.pipeline.lower import lower
from compiler.runtime.artifacts.checkpoint import read_position
from compiler.runtime.artifacts.safetensors import read_weights
from compiler.tune.lock import read_lock

GIB = 1 << 30


@contextmanager
def at_once(most: float = 1.0) -> Iterator[None]:
    """Fails what waits, or takes more CPU time or memory than a refusal may."""

    def late(*_: object) -> None:
        raise TimeoutError("it waits")

    before, begin = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    kept = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, 20)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, kept)
    assert time.process_time() - begin < most
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < GIB // 2


def pipe(path: Path) -> Path:
    os.mkfifo(path)
    return path


NAMES = ("d.npy", "d.npz", "d.csv", "d.h5", "d.parquet", "train-images-idx3-ubyte", "d.idx.gz", "d", "d.yaml")
READERS: tuple[Callable[[Path], object], ...] = (
    headers,
    lambda p: read_array(p, "a"),
    lambda p: list(array_parts(p, "a")),
    lambda p: open_rows(p, "a", (), p.parent),
)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("reader", READERS)
def test_pipes(name: str, reader: Callable[[Path], object], tmp_path: Path) -> None:
    path = pipe(tmp_path / name)
    with at_once(), pytest.raises(ValueError, match="it is a named pipe, not a file"):
        reader(path)


@pytest.mark.parametrize("reader", READERS)
def test_devices(reader: Callable[[Path], object]) -> None:
    with at_once(), pytest.raises(ValueError, match="it is a device, not a file"):
        reader(Path("/dev/zero"))


def test_models_weights_checkpoints_and_locks(tmp_path: Path) -> None:
    path = pipe(tmp_path / "m.yaml")
    for place, word in ((path, "a named pipe"), (Path("/dev/zero"), "a device")):
        with at_once(), pytest.raises(ModelError) as model:
            load_model(place)
        assert model.value.diagnostics[0].code == "E0002" and f"it is {word}, not a file" in str(model.value)
        for read, code in (
            (read_weights, "E0916"),
            (read_position, "E0909"),
            (lambda p: read_lock(p, "cpu", Target()), "E0925"),
        ):
            with at_once(), pytest.raises(RunError) as refused:
                read(place)
            assert refused.value.code == code and f"it is {word}, not a file" in refused.value.message


def test_a_model_that_names_a_pipe(tmp_path: Path) -> None:
    pipe(tmp_path / "d.npy")
    path = tmp_path / "m.yaml"
    path.write_text(
        "language: 1\nname: m\nneurons: {n: {state: {v: 0}, update: [v = v]}}\n"
        "populations: {a: {neuron: n, size: 3, init: {v: {file: d.npy}}}}\nsimulate: {dt: 1 ms, duration: 1 ms}\n"
    )
    with at_once(), pytest.raises(ModelError) as refused:
        load_model(path)
    assert [d.code for d in refused.value.diagnostics] == ["E0701"]
    assert "is a named pipe, not a file" in refused.value.diagnostics[0].message


def zipped(path: Path, shape: tuple[int, ...], written: int) -> Path:
    """An .npz with the header of `shape` (u1) and `written` zeros, compressed."""
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "|u1", "fortran_order": False, "shape": shape})
    part = bytes(1 << 24)
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("a.npy", "w") as stream,
    ):
        stream.write(head.getvalue())
        for _ in range(written >> 24):
            stream.write(part)
    return path


def test_archives_that_expand(tmp_path: Path) -> None:
    """A few MB that would become 0.75 GB: refused by the header, before anything is expanded."""
    path = zipped(tmp_path / "d.npz", (3 * GIB // 4,), 3 * GIB // 4)
    assert path.stat().st_size < 4 << 20
    for reader in READERS:
        with at_once(), pytest.raises(ValueError, match="more than 200 times as many"):
            reader(path)


@pytest.mark.parametrize("reader", READERS)
def test_headers_that_claim_more_than_there_is(reader: Callable[[Path], object], tmp_path: Path) -> None:
    with at_once(), pytest.raises(ValueError, match="bytes of numbers, not 1,000,000,000,000"):
        reader(zipped(tmp_path / "d.npz", (10**12,), 0))
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "<f8", "fortran_order": True, "shape": (10**6, 10**6)})
    (tmp_path / "d.npy").write_bytes(head.getvalue())
    with at_once(), pytest.raises(ValueError, match="bytes of numbers, not 8,000,000,000,000"):
        reader(tmp_path / "d.npy")
    start = b"\0\0\x0e\x03" + struct.pack(">3I", 100_000, 1000, 1000)
    (tmp_path / "a-idx3-ubyte").write_bytes(start)
    with at_once(), pytest.raises(ValueError, match="bytes of numbers, not 800,000,000,000"):
        reader(tmp_path / "a-idx3-ubyte")
    with gzip.open(tmp_path / "a-idx3-ubyte.gz", "wb") as stream:
        stream.write(start)
    with at_once(), pytest.raises(ValueError, match="more than 200 times as many"):
        reader(tmp_path / "a-idx3-ubyte.gz")


def test_what_follows_an_idx_array_is_not_expanded(tmp_path: Path) -> None:
    path = tmp_path / "a-idx1-ubyte.gz"
    with gzip.open(path, "wb", 1) as stream:
        stream.write(b"\0\0\x08\x01" + struct.pack(">I", 10) + bytes(10))
        for _ in range(16):
            stream.write(bytes(1 << 24))
    with at_once(0.2), pytest.raises(ValueError, match="more than 10 bytes"):
        read_array(path, None)


def test_hdf5_without_numbers(tmp_path: Path) -> None:
    """A data set that was declared, and never written."""
    path = tmp_path / "d.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("a", (10**13,), "f4", chunks=(1 << 20,))
    for reader in READERS:
        with at_once(), pytest.raises(ValueError, match="more than 200 times as many"):
            reader(path)


def test_csv_of_one_line(tmp_path: Path) -> None:
    path = tmp_path / "d.csv"
    with path.open("wb") as stream:
        stream.truncate(4 * GIB)  # zeros, which take no place
    for reader in READERS:
        with at_once(2), pytest.raises(ValueError, match="longer than"):
            reader(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x,y\n1,2\n\n3,oops\n", "column 2 of line 4 is no number: `oops`"),
        ("x,y\n1,2\n3,\n", "column 2 of line 3 is empty"),
        ("x,y\n1,2\n# 1\n3,4,5\n", "line 4 has 3 numbers, those before it 2"),
        ("x,y\n1\n2\n", "its first line names 2 columns, the others have 1"),
        ("x,y,x\n1,2,3\n", "its first line names `x` twice"),
        ("y\n1\n", "it has no column `x`"),
        ("", "it has no column `x`"),
    ],
)
def test_csv_errors_count_lines_of_the_file(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "d.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=re.escape(message)):
        read_columns(path, ["x"])


def test_csv_of_spreadsheets(tmp_path: Path) -> None:
    """Which begin with a byte order mark."""
    path = tmp_path / "d.csv"
    path.write_bytes(b"\xef\xbb\xbfx,y\r\n1,2\r\n3,4\r\n")
    assert read_columns(path, ["y", "x"]).tolist() == [[2, 1], [4, 3]]
    path.write_bytes(b"\xef\xbb\xbf1\r\n2.5\r\n")
    assert read_table(path).tolist() == [1, 2.5]
    path.write_bytes(b"")
    assert read_table(path).tolist() == []


@pytest.mark.parametrize(("number", "message"), [("nan", "not a number"), ("1e300", "1e\\+300, too large for float32")])
def test_parameters_that_no_type_holds(number: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f"1\n{number}\ninf\n")
    path = tmp_path / "m.yaml"
    path.write_text(
        "language: 1\nneurons: {cell: {params: {a: 1}, state: {v: 0}, update: [v = v + a]}}\n"
        "populations: {p: {neuron: cell, size: 3, params: {a: {file: a.csv}}}}\nsimulate: {dt: 1 ms, duration: 2 ms}\n"
    )
    with pytest.raises(ModelError, match=f"value 1 of `p.a`, counted from 0, is {message}"):
        lower(load_model(path), Capabilities("reference", 0, True, frozenset()))


def test_parquet_of_one_value(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "d.parquet"
    table = arrow.table({"a": np.zeros(1 << 23)})
    with parquet.ParquetWriter(path, table.schema) as writer:
        for _ in range(12):
            writer.write_table(table)
    for reader in READERS:
        with at_once(), pytest.raises(ValueError, match="more than 200 times as many"):
            reader(path)


@pytest.mark.parametrize("length", [1 << 63, (1 << 64) - 1, 1 << 40, 1 << 20])
def test_safetensors_headers(length: int, tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    path.write_bytes(struct.pack("<Q", length) + b"{}" + bytes(100))
    for read in (read_weights, read_position):
        with at_once(), pytest.raises(RunError, match=r"safetensors|cannot be read"):
            read(path)
    path.write_bytes(
        struct.pack("<Q", 70) + b'{"w":{"dtype":"F32","shape":[1099511627776],"data_offsets":[0,4398046511104]}}'
    )
    for read in (read_weights, read_position):
        with at_once(), pytest.raises(RunError):
            read(path)


def test_zeros_that_compress_well_are_data(tmp_path: Path) -> None:
    """Below half a GB nothing is suspected."""
    path = zipped(tmp_path / "d.npz", (1 << 24,), 1 << 24)
    assert read_array(path, "a").shape == (1 << 24,)


def test_arrays_without_samples(tmp_path: Path) -> None:
    np.savez(tmp_path / "none.npz", x=np.zeros((0, 4)), y=np.zeros((0, 2)))
    model = tmp_path / "model.yaml"
    model.write_text(
        "language: 1\n"
        "network: {inputs: {x: {shape: [4]}, y: {shape: [2]}}, layers: [{dense: {name: o, inputs: x, units: 2}}]}\n"
        "train: {data: {file: none.npz, inputs: {x: x, y: y}}, loss: {mean_squared_error: {prediction: o, target: y}}, "
        "optimizer: {sgd: {learning_rate: 0.1}}, epochs: 1}\n"
    )
    with pytest.raises(ModelError, match="`x` holds no samples"):
        load_model(model)


def test_a_model_file_with_a_word_of_a_megabyte(tmp_path: Path) -> None:
    text = "language: 1\nname: m\nx-note: {}\nneurons: {{n: {{state: {{v: 0}}, update: [v = v]}}}}\n"
    (tmp_path / "m.yaml").write_text(text.format("a" * 1_000_000))
    with at_once(5):
        assert load_model(tmp_path / "m.yaml").name == "m"


def test_file_names_that_are_no_utf8(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/m\xe9.yaml"))
    path.write_text("language: 1\nneurons: {n: {state: {v: 0}, update: [v = v]}}\n")
    assert load_model(path).span.file.path.endswith(r"m\udce9.yaml")
    write_text(tmp_path / "run.json", dumps({"model": str(path)}), "a record")
    assert json.loads((tmp_path / "run.json").read_text()) == {"model": str(path)}
    printed = io.BytesIO()
    for encoding, text in (("utf-8", r"m\udce9"), ("ascii", r"\xe9")):
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(printed, encoding))
        open_streams()
        print("m\udce9" if encoding == "utf-8" else "\xe9", flush=True)
        assert printed.getvalue().decode().splitlines()[-1] == text
