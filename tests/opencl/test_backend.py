"""The opencl backend by itself: elementary functions and draws bit for bit, merged text, devices that lack something,
failures with codes."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pytest

from backends.c_family.device_library import known, select
from backends.device import source
from backends.opencl import device as devices
from backends.opencl import library as libraries
from backends.opencl import probe as probes
from backends.opencl.backend import OpenclBackend
from backends.opencl.compile import compile_text
from backends.opencl.emit import emit
from backends.opencl.library import OPTIONS, built, context_of
from backends.opencl.probe import Probe
from backends.packages import installed
from backends.protocol import BackendError
from backends.reference.load import ReferenceInstance
from backends.registry import TARGETS, backend
from compiler.cli.actions.doctor import opencl_lines, state_of
from compiler.core.diagnostics import RunError
from compiler.frontend.load import load_model
from compiler.ir.level2.program import Merged
from compiler.passes.pipeline.lower import lower
from compiler.runtime.common.options import Options
from compiler.runtime.prepare import refuse_options
from tests.construct_runs import construct, lowered
from tests.numeric.device_library import TYPES, Signature, build, signatures
from tests.recurrent import Network, network, trained

HEAD = """
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL FP_CONTRACT OFF
typedef uchar nl_u8; typedef int nl_i32; typedef uint nl_u32; typedef long nl_i64; typedef ulong nl_u64;
#define NL_FN static inline
"""


# --------------------------------------------------------------------------------------- device functions


def kernel_of(s: Signature) -> str:
    formals = "".join(f"__global const {t} *a{n}, " for n, t in enumerate(s.arguments))
    actuals = ", ".join(f"a{n}[i]" for n in range(len(s.arguments)))
    return (f"__kernel void run_{s.name}({formals}__global {s.result} *out) "
            f"{{ const size_t i = get_global_id(0); out[i] = nl_{s.name}({actuals}); }}\n")  # fmt: skip


def arguments(s: Signature, rng: np.random.Generator) -> list[npt.NDArray[Any]]:
    """Numbers over all magnitudes, with zeros, infinities and NaN; whole numbers of all sizes."""
    made: list[npt.NDArray[Any]] = []
    for t in s.arguments:
        dtype = np.dtype(TYPES[t])
        if dtype.kind == "f":
            x = rng.normal(size=4096) * 10.0 ** rng.integers(-6, 6, 4096)
            x[:8] = 0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5
            made.append(x.astype(dtype))
        else:
            high = 2 if dtype.kind == "i" else 1
            x = rng.integers(1, 2 ** (8 * dtype.itemsize - high), 4096, dtype=np.uint64)
            made.append((x >> rng.integers(0, 8 * dtype.itemsize - 2, 4096).astype(np.uint64) | 1).astype(dtype))
    return made


def test_elementary_functions_and_draws_are_those_of_c(device: Any, cc: list[str], tmp_path: Path) -> None:
    """One text for all compilers: every public function of backends/device gives the bits of the C compiler."""
    cl = devices.library()
    found = [s for s in signatures(source("math") + source("philox")) if f"nl_{s.name}" in known("opencl")]
    assert len(found) > 60
    text = HEAD + select([f"nl_{s.name}" for s in found], "opencl") + "\n" + "".join(kernel_of(s) for s in found)
    context = context_of(device)
    options = [*OPTIONS, "-cl-fp32-correctly-rounded-divide-sqrt", "-cl-opt-disable"]
    program = built(cl.Program(context, text), tuple(o for o in options if "denorms" not in o))
    queue, rng, theirs = cl.CommandQueue(context), np.random.default_rng(3), build(cc, tmp_path, "-ffp-contract=off")
    for s in found:
        given = arguments(s, rng)
        flags = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
        buffers = [cl.Buffer(context, flags, hostbuf=x) for x in given]
        ours = np.empty(4096, TYPES[s.result])
        out = cl.Buffer(context, cl.mem_flags.WRITE_ONLY, ours.nbytes)
        kernel = cl.Kernel(program, f"run_{s.name}")
        kernel.set_args(*buffers, out)
        cl.enqueue_nd_range_kernel(queue, kernel, (4096,), (64,))
        cl.enqueue_copy(queue, ours, out)
        np.testing.assert_array_equal(ours, theirs(s.name, *given), err_msg=s.name)


# ------------------------------------------------------------------------------------------------ texts


def small(folder: Path, precision: str = "float32") -> Merged:
    return lowered(construct("fixed degrees", folder, precision), "opencl")


def test_text_does_not_depend_on_rows(root: Path) -> None:
    texts = {emit(lowered(load_model(root / "models/ring_10k.yaml", {"n": n}), "opencl")).text for n in ("30", "90")}
    assert len(texts) == 1


def test_needs_of_a_text(root: Path, tmp_path: Path) -> None:
    """What a device must be able to do follows from the text."""
    assert "double" not in emit(lowered(load_model(root / "models/spiking_conv.yaml", {}), "opencl")).needs
    assert "double" in emit(small(tmp_path, "float64")).needs
    exact = emit(small(tmp_path))
    assert {"atomics", "order"} <= exact.needs
    assert "#pragma OPENCL FP_CONTRACT OFF" in exact.text


# ---------------------------------------------------------------------------------------------- devices


def without(device: Any, extensions: str) -> Any:
    """A device like this one, with these extensions and division that is not rounded correctly."""
    return SimpleNamespace(name="thing", platform=device.platform, extensions=extensions, single_fp_config=0)


@pytest.mark.parametrize(
    ("need", "extensions", "what", "help"),
    [
        ("double", "cl_khr_int64_base_atomics", "float64 numbers", "precision: float32"),
        ("atomics", "cl_khr_fp64", "atomic additions of 64 bits", "--target cpu"),
        ("order", "cl_khr_fp64 cl_khr_int64_base_atomics", "division and square roots", "order: reproducible"),
    ],
)
def test_a_device_that_lacks_something(
    device: Any, monkeypatch: pytest.MonkeyPatch, need: str, extensions: str, what: str, help: str
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(devices, "probe", lambda device: Probe(None, rounded=False, ordered=True))
        refused(without(device, extensions), need, what, help)
    devices.check(device, frozenset({need}))


def refused(device: Any, need: str, what: str, help: str) -> None:
    with pytest.raises(BackendError) as e:
        devices.check(device, frozenset({need}))
    assert (e.value.code, e.value.exit_code) == ("E0948", 3)
    assert what in e.value.message and "thing" in e.value.message and help in (e.value.help or "")


def test_what_a_device_does_not_say_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    thing = SimpleNamespace(extensions="", single_fp_config=0)
    for found in (Probe(None, True, True), Probe(None, False, True), Probe(None, True, False)):
        monkeypatch.setattr(devices, "probe", lambda device, found=found: found)
        assert (devices.lacks(thing, {"order"}) is None) == (found.rounded and found.ordered)


@pytest.mark.parametrize(
    ("good", "bad", "found"),
    [
        ("", "", Probe(None, True, True)),
        ("x[i] / y[i]", "x[i] * (1.0f / y[i])", Probe(None, False, True)),
        ("x[i * terms + k]", "x[i * terms + terms - 1 - k]", Probe(None, True, False)),
    ],
)
def test_the_probe_compares_quotients_and_sums(
    device: Any, monkeypatch: pytest.MonkeyPatch, good: str, bad: str, found: Probe
) -> None:
    monkeypatch.setattr(probes, "_TEXT", probes._TEXT.replace(good, bad) + "\n")
    assert bad in probes._TEXT and probes.probe.__wrapped__(device) == found


def test_a_good_probe_is_kept_and_a_bad_one_is_not(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "_TEXT", f"{probes._TEXT}\n// another key")
    said = "clBuildProgram failed\n\nerror: unknown target CPU 'generic'\nDevice thing failed to build the program\n"

    def refuses(program: Any, options: Any) -> Any:
        raise devices.library().RuntimeError(said)

    builds = probes.built
    for builder, wanted in (
        (refuses, Probe("error: unknown target CPU 'generic'", False, False)),
        (builds, Probe(None, True, True)),
        (refuses, Probe(None, True, True)),
    ):
        monkeypatch.setattr(probes, "built", builder)
        assert probes.probe.__wrapped__(device) == wanted


def test_devices_that_are_not_there(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BackendError, match="there is no OpenCL device 99") as e:
        devices.device_of(99)
    assert e.value.code == "E0947" and device.name.strip() in (e.value.help or "")
    monkeypatch.setattr(devices, "devices", lambda: ())
    with pytest.raises(BackendError, match="there is no OpenCL device") as e:
        devices.device_of(0)
    assert "netloom[opencl]" in (e.value.help or "")


def thing(name: str, gpu: bool = False) -> Any:
    kind = devices.library().device_type
    platform = SimpleNamespace(name="Portable Computing Language" if "PoCL" in name else "Other")
    return SimpleNamespace(name=name, platform=platform, type=kind.GPU if gpu else kind.CPU, version="OpenCL 3.0")


def test_devices_whose_compilers_work_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    there = [thing("other"), thing("broken GPU", gpu=True), thing("PoCL"), thing("broken PoCL"), thing("GPU", gpu=True)]
    error = "error: unknown target CPU 'generic'"
    with monkeypatch.context() as patch:
        patch.setattr(devices.library(), "get_platforms", lambda: [SimpleNamespace(get_devices=lambda: there)])
        patch.setattr(devices, "probe", lambda d: Probe(error if "broken" in d.name else None, True, True))
        found = devices.devices.__wrapped__()
        assert [d.name for d in found] == ["GPU", "PoCL", "other", "broken GPU", "broken PoCL"]
        patch.setattr(devices, "devices", lambda: found)
        assert devices.device_of(0).name == "GPU"
        with pytest.raises(BackendError, match=r"broken PoCL .* compiles nothing: error: unknown target CPU") as e:
            devices.device_of(4)
        assert (e.value.code, e.value.exit_code) == ("E0950", 3)
        assert "device 0 is GPU (Other)" in (e.value.help or "")
        patch.setattr(devices, "devices", lambda: found[4:])
        with pytest.raises(BackendError) as e:
            devices.device_of(0)
        assert e.value.code == "E0950" and "netloom[opencl-intel]" in (e.value.help or "")
        ((name, row),) = opencl_lines()
        assert name == "device 0" and error in row and "does not know this processor" in row
        assert "compiles nothing" in state_of(TARGETS["opencl"])


def test_a_driver_of_a_package_is_entered_beside_those_of_the_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loader reads one folder of entries, so that it holds all."""
    system = tmp_path / "system"
    system.mkdir()
    (system / "nvidia.icd").write_text("libnvidia-opencl.so.1\n")
    monkeypatch.setattr(libraries, "SYSTEM", system)
    folder = libraries.entered(Path("/lib/libintelocl.so"), tmp_path / "made")
    texts = {path.name: path.read_text() for path in folder.iterdir()}
    assert texts == {"nvidia.icd": "libnvidia-opencl.so.1\n", "libintelocl.icd": "/lib/libintelocl.so\n"}
    assert libraries.entered(Path("/lib/libintelocl.so"), tmp_path / "made") == folder
    assert installed("numpy", "version.py") == (Path(np.__file__).resolve().parent / "version.py", np.__version__)
    assert installed("numpy", "libintelocl.so") is None
    assert installed("no-such-package", "version.py") is None


def test_pyopencl_is_asked_for_when_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyopencl", None)
    with pytest.raises(BackendError, match="PyOpenCL cannot be used") as e:
        devices.library()
    assert (e.value.code, e.value.exit_code) == ("E0947", 3)


def test_the_doctor_names_devices(device: Any) -> None:
    rows = dict(opencl_lines())
    assert device.name.strip() in rows["device 0"] and "lacks" not in rows["device 0"]


def test_options_of_other_targets_are_refused() -> None:
    for wrong in (Options(target="opencl", arch="sm_90"), Options(target="opencl", portable=True)):
        with pytest.raises(RunError) as e:
            refuse_options(wrong)
        assert e.value.code == "E0912"
    refuse_options(Options(target="opencl", device=0))


# --------------------------------------------------------------------------------------------- failures


def test_a_refused_text_names_the_line_of_the_model(device: Any, tmp_path: Path) -> None:
    emitted = emit(small(tmp_path))
    number, span = next((n, s) for n, s in emitted.spans.items() if s.file.text)
    lines = emitted.text.split("\n")
    lines[number - 1] = "nothing_like_it(;"
    with pytest.raises(BackendError) as e:
        compile_text(replace(emitted, text="\n".join(lines)), device)
    assert e.value.code == "E0902" and str(span) in e.value.message


@pytest.mark.usefixtures("device")
def test_failures_of_a_device_have_codes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too little memory, a kernel that cannot be launched, a run of a closed instance."""
    merged, chosen = small(tmp_path), backend("opencl", check=True)
    instance: Any = chosen.load(chosen.compile(merged, {}), merged, 1)
    assert instance.run("step", 1, 2) == 2
    with pytest.raises(ValueError, match="elements"):
        instance.write(merged.arrays[0].name, np.zeros(10**6))
    cl = devices.library()

    def fails(*arguments: Any) -> None:
        raise cl.RuntimeError("it is broken")

    with monkeypatch.context() as patch, pytest.raises(BackendError, match="it is broken") as e:
        patch.setattr(cl, "enqueue_nd_range_kernel", fails)
        instance.run("step", 3, 1)
    assert e.value.code == "E0949"
    instance.close()
    with pytest.raises(ValueError, match="closed"):
        instance.run("step", 3, 1)


@pytest.mark.usefixtures("device")
def test_a_launch_without_work_items_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a Poisson input, all kernels but that of its mean: PoCL divides by their size."""
    path = tmp_path / "driven.yaml"
    path.write_text(
        "language: 1\nneurons: {n: {state: {v: 0}, inputs: {kick: {}}, update: [v = 0.5 * v + kick]}}\n"
        "populations: {cell: {neuron: n, size: 3}}\n"
        "inputs: {noise: {to: cell, poisson: {rate: 900 Hz, into: kick, weight: 1}}}\n"
        "simulate: {dt: 1 ms, duration: 4 ms, seed: 1}\nnumerics: {order: bitwise}\n"
    )
    merged = lowered(load_model(path), "opencl")
    chosen = backend("opencl")
    instance: Any = chosen.load(chosen.compile(merged, {}), merged, 1)
    cl, sizes = devices.library(), []
    launch = cl.enqueue_nd_range_kernel

    def counted(queue: Any, kernel: Any, size: tuple[int, ...], group: tuple[int, ...]) -> None:
        sizes.append(size)
        launch(queue, kernel, size, group)

    monkeypatch.setattr(cl, "enqueue_nd_range_kernel", counted)
    launches = sum(x.every == 1 for p in merged.phases if p.name == "step" for x in p.launches)
    assert instance.run("step", 1, 1) == 1
    assert sizes and all(np.prod(size) > 0 for size in sizes)
    assert len(sizes) < launches + 1
    reference = ReferenceInstance(merged, 1)
    reference.run("step", 1, 1)
    np.testing.assert_array_equal(instance.read("cell.v"), reference.read("cell.v"))


# ----------------------------------------------------------------------------------------------- loops


def test_steps_of_a_recurrent_layer_are_a_loop(tmp_path: Path) -> None:
    """The bits of the reference; launches, rows and text do not grow with the steps."""
    n, opencl = Network("gru", 3, 4, layers=2, bidirectional=True, batch=3), OpenclBackend()
    few, many = (
        lower(network(tmp_path, replace(n, steps=steps), order="bitwise"), opencl.capabilities, True).merged
        for steps in (4, 40)
    )
    assert emit(few).text == emit(many).text
    assert [p.launches for p in few.phases] == [p.launches for p in many.phases]
    assert [t.count for t in few.tables] == [t.count for t in many.tables]
    found = trained(opencl.load(opencl.compile(few, {}), few, 3), few)
    for name, values in trained(ReferenceInstance(few, 3), few).items():
        np.testing.assert_array_equal(values, found[name], err_msg=name)


WRITES: Final = """
import resource, sys
from backends.opencl.device import device_of
from backends.opencl.library import context_of
context_of(device_of(0))
resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
try:
    with open(sys.argv[1], "wb") as file:
        file.write(bytes(1000))
except OSError as error:
    print(error.strerror)
"""


def test_a_file_that_is_too_large_stays_an_error(device: Any, tmp_path: Path) -> None:
    """LLVM, with which drivers compile, handles the signal (SIGXFSZ): the process printed a report, or ended."""
    done = subprocess.run(
        [sys.executable, "-c", WRITES, tmp_path / "file"], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "File too large\n", "")
