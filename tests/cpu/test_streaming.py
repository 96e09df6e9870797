"""Training on streamed samples is bitwise equal to training in memory, with bounded memory."""

from __future__ import annotations

import gzip
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from backends.registry import backend
from compiler.files.array_rows import array_parts, open_rows
from compiler.frontend.load import load_model
from compiler.passes.pipeline.lower import lower
from compiler.runtime.common.options import Options
from compiler.runtime.inference.predict import evaluate_file
from netloom import predict, run
from tests.cpu.models_for_runs import DIGITS, write
from tests.cpu.test_run_data import FROM_NPZ, OWN, equal, write_csv, write_idx
from tests.grids import diagonal

pytestmark = pytest.mark.usefixtures("cc", "here", "not_optimized", "without_plots")

SAMPLES = 300
LITTLE = "    memory: 0.06 MB\n"
"""Memory for two of the five batches: half of it is for prefetching."""


@pytest.fixture
def samples(here: Path, root: Path) -> tuple[np.ndarray, np.ndarray]:
    with np.load(root / "models" / "data" / "digits.npz") as file:
        x, y = file["flat"][:SAMPLES], file["labels"][:SAMPLES]
    np.savez(here / "digits.npz", flat=x, labels=y)
    return x, y


def model(here: Path, source: str, name: str) -> Path:
    assert FROM_NPZ in DIGITS
    return write(here, DIGITS.replace(FROM_NPZ, source), name)


def streams(path: Path) -> bool:
    lowered = lower(load_model(path), backend("cpu").capabilities)
    roles = {str(a.role) for a in lowered.merged.arrays if a.name.startswith("data.")}
    assert len(roles) == 1
    told = [d.verdict for d in lowered.decisions if d.pass_name == "load_data"]
    assert told == (["read while training, 2 batches at a time"] if roles == {"data"} else [])
    return roles == {"data"}


def expected(here: Path) -> dict[str, np.ndarray]:
    path = model(here, FROM_NPZ, "whole.yaml")
    assert not streams(path)
    return run(path, epochs=2).weights()


def streamed(here: Path, source: str) -> dict[str, np.ndarray]:
    path = model(here, source + LITTLE, "streamed.yaml")
    assert streams(path)
    return run(path, epochs=2).weights()


@pytest.mark.parametrize(
    "kind", ["npz", "compressed npz", "npy", "columns npy", "idx", "idx.gz", "csv", "own csv", "h5"]
)
def test_every_format(
    here: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch, samples: tuple[np.ndarray, np.ndarray], kind: str
) -> None:
    x, y = samples
    source = FROM_NPZ
    if kind == "compressed npz":
        np.savez_compressed(here / "small.npz", flat=x, labels=y)
        source = FROM_NPZ.replace("digits.npz", "small.npz")
    elif kind.endswith("npy"):
        np.save(here / "x.npy", np.asfortranarray(x) if kind != "npy" else x)
        np.save(here / "y.npy", y)
        source = OWN.replace("IMAGE", "x.npy").replace("LABEL", "y.npy")
    elif kind.startswith("idx"):
        write_idx(here / f"x.{kind}", x, 0x0D, ">f4")
        write_idx(here / f"y.{kind}", y, 0x0B, ">i2")
        source = OWN.replace("IMAGE", f"x.{kind}").replace("LABEL", f"y.{kind}")
    elif kind.endswith("csv"):
        columns = write_csv(here, samples)
        source = f"    file: t.csv\n    inputs: {{image: {{columns: [{columns}]}}, label: digit}}\n"
        if kind == "own csv":
            source = (
                f"    inputs: {{image: {{file: t.csv, columns: [{columns}]}}, label: {{file: t.csv, array: digit}}}}\n"
            )
    elif kind == "h5":
        import h5py

        with h5py.File(here / "t.h5", "w") as file:
            file["a/flat"], file["a/labels"] = x, y
        source = "    file: t.h5\n    inputs: {image: a/flat, label: a/labels}\n"
    (here / "cache").mkdir()
    (own_cache / "cpu").mkdir(exist_ok=True)
    (here / "cache" / "cpu").symlink_to(own_cache / "cpu")  # what is compiled is not the matter
    monkeypatch.setenv("NETLOOM_CACHE", str(here / "cache"))
    assert equal(streamed(here, source), expected(here))
    written = set((here / "cache").rglob("arrays/*/*.npy"))
    assert len(written) == (0 if kind in ("npz", "npy", "idx") else 1 if kind == "columns npy" else 2)


def test_parquet(here: Path, samples: tuple[np.ndarray, np.ndarray]) -> None:
    import pyarrow as arrow
    from pyarrow import parquet

    table = arrow.table({"pixels": samples[0].tolist(), "digit": samples[1]})
    parquet.write_table(table, here / "t.parquet", row_group_size=64)
    assert equal(streamed(here, "    file: t.parquet\n    inputs: {image: pixels, label: digit}\n"), expected(here))


@pytest.mark.parametrize(
    ("change", "target"),
    diagonal(["", "shuffle: false", "split: {folds: 4, fold: 1, stratify: label}"], ["cpu", "reference"]),
)
def test_metrics_and_order(here: Path, samples: tuple[np.ndarray, np.ndarray], change: str, target: str) -> None:
    """Every number of every epoch; and `evaluate` measures the same in parts."""
    found = []
    for text in (FROM_NPZ, FROM_NPZ + LITTLE):
        key = change.split(":")[0]
        whole = DIGITS.replace(FROM_NPZ, text)
        if change:
            whole = re.sub(rf"    {key}: .*\n", "", whole).replace(text, text + f"    {change}\n")
        path = write(here, whole, f"m{len(found)}.yaml")
        result = run(path, epochs=2, target=target)
        rows = [{k: v for k, v in row.items() if k != "seconds"} for row in result.history()]
        found.append((rows, dict(evaluate_file(result.folder, Options(target=target)).metrics)))
    assert found[0] == found[1]
    assert found[0][1]["loss"] == found[0][0][-1]["validation_loss"]


def test_the_code_is_the_same(here: Path, samples: tuple[np.ndarray, np.ndarray]) -> None:
    for target in ("cpu", "cuda"):
        chosen = backend(target)
        texts = {
            chosen.emit(lower(load_model(model(here, FROM_NPZ + more, "m.yaml")), chosen.capabilities).merged)
            for more in ("    # as a whole\n", LITTLE, "    memory: 0.03 MB\n")  # comments tell lines of the model
        }
        assert len(texts) == 1


def test_resumed_in_the_middle_of_an_epoch(
    here: Path, samples: tuple[np.ndarray, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    from compiler.runtime.training import feed

    ready, calls = feed.Feed.ready, []

    def interrupting(self: feed.Feed, batch: int) -> int:
        calls.append(batch)
        if len(calls) == 5:
            signal.raise_signal(signal.SIGTERM)
        return ready(self, batch)

    path = model(here, FROM_NPZ + LITTLE, "streamed.yaml")
    monkeypatch.setattr(feed.Feed, "ready", interrupting)
    first = run(path, epochs=2)
    assert first.status == "interrupted"
    monkeypatch.setattr(feed.Feed, "ready", ready)
    assert equal(run(path, epochs=2, resume=first.folder).weights(), expected(here))


def test_outputs_of_a_large_file(here: Path, samples: tuple[np.ndarray, np.ndarray]) -> None:
    folder = run(model(here, FROM_NPZ + LITTLE, "streamed.yaml"), epochs=1).folder
    np.savez_compressed(here / "small.npz", flat=samples[0])
    large = predict(folder, here / "small.npz")["logits"]
    np.testing.assert_array_equal(large, predict(folder, samples[0])["logits"])


def test_a_batch_larger_than_the_memory(here: Path, samples: tuple[np.ndarray, np.ndarray]) -> None:
    path = model(here, FROM_NPZ + "    memory: 0.001 MB\n", "tiny.yaml")
    assert equal(run(path, epochs=2).weights(), expected(here))


# ----------------------------------------------------------------------------------------------- files


@pytest.mark.parametrize("name", ["v.npy", "v.npz", "w.npz", "v.idx", "v.idx.gz", "v.h5"])
def test_rows_in_any_order(here: Path, name: str) -> None:
    values = np.arange(5 * 6 * 7, dtype=np.float32).reshape(5, 6, 7)
    array = None
    if name.endswith("npy"):
        np.save(here / name, values)
    elif name.endswith("npz"):
        (np.savez if name == "v.npz" else np.savez_compressed)(here / name, other=values + 1, a=values)
        array = "a"
    elif "idx" in name:
        write_idx(here / name, values, 0x0D, ">f4")
    else:
        import h5py

        with h5py.File(here / name, "w") as file:
            file["a"] = values
        array = "a"
    rows = open_rows(here / name, array, (), here / "cache")
    chosen = np.array([4, 0, 0, 3])
    found = rows.take(chosen)
    assert rows.shape == values.shape and found.dtype == np.float32
    np.testing.assert_array_equal(found, values[chosen])
    np.testing.assert_array_equal(np.concatenate(list(array_parts(here / name, array))), values)


def test_a_file_that_changed_is_converted_again(here: Path) -> None:
    for n in (3, 4):
        np.savez_compressed(here / "v.npz", a=np.arange(n))
        rows = open_rows(here / "v.npz", "a", (), here / "cache")
        np.testing.assert_array_equal(rows.take(np.arange(n)), np.arange(n))


def test_a_file_that_ends_early(here: Path) -> None:
    np.save(here / "v.npy", np.arange(1000.0))
    whole = (here / "v.npy").read_bytes()
    (here / "v.npy").write_bytes(whole[:-8])
    with pytest.raises(ValueError, match="7,992 bytes of numbers, not 8,000"):
        open_rows(here / "v.npy", None, (), here / "cache")
    write_idx(here / "v.idx.gz", np.arange(6).reshape(2, 3), 0x08, ">u1")
    (here / "v.idx.gz").write_bytes(gzip.compress(gzip.decompress((here / "v.idx.gz").read_bytes())[:-1]))
    with pytest.raises(ValueError, match="5 bytes of numbers, not 6"):
        open_rows(here / "v.idx.gz", None, (), here / "cache")
    assert not list((here / "cache").rglob("*npy*"))


# ---------------------------------------------------------------------------------------------- memory

PEAK = """
import sys
from netloom import predict, run
run(sys.argv[1])
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""
"""Not getrusage, which includes the process image before exec."""


def peak_mb(here: Path, root: Path, megabytes: int, memory: str) -> float:
    """Peak resident memory in MB of a training on `megabytes` MB of float32."""
    features, rows = 4096, megabytes * 10**6 // (4 * 4096)
    x = np.lib.format.open_memmap(here / "x.npy", "w+", np.float32, (rows, features))
    for first in range(0, rows, 1000):
        x[first : first + 1000] = np.float32(first)
    del x
    np.save(here / "y.npy", np.zeros(rows, np.int32))
    path = write(
        here,
        f"""\
language: 1
network:
  inputs: {{x: {{shape: [{features}]}}, y: {{shape: [], dtype: int32}}}}
  layers:
    - dense: {{name: out, inputs: x, units: 2}}
train:
  data: {{inputs: {{x: {{file: x.npy}}, y: {{file: y.npy}}}}, memory: {memory}, scale: {{x: 1e-6}}}}
  loss: {{softmax_cross_entropy: {{logits: out, target: y}}}}
  optimizer: {{sgd: {{learning_rate: 1e-3}}}}
  epochs: 1
""",
        "large.yaml",
    )
    done = subprocess.run([sys.executable, "-c", PEAK, str(path)], cwd=root, capture_output=True, text=True, check=True)
    (here / "x.npy").unlink()
    return float(done.stdout) * 1024 / 1e6


@pytest.mark.slow
def test_memory(here: Path, root: Path) -> None:
    """The bound holds what the program has and what is read meanwhile; a few MB are pages of the part being read."""
    small = peak_mb(here, root, 2, "20 MB")
    assert peak_mb(here, root, 200, "20 MB") < small + 20 + 15
    assert peak_mb(here, root, 200, "1 GB") > small + 200


@pytest.mark.slow
def test_memory_of_gigabytes(here: Path, root: Path) -> None:
    small = peak_mb(here, root, 2, "100 MB")
    assert peak_mb(here, root, 3000, "100 MB") < small + 100 + 15
