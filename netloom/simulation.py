"""A spiking network that is simulated piece by piece.

    s = netloom.load("models/cuba.yaml").simulation(seed=1)
    s.run("100 ms")
    s["exc"].v[:10] = -60
    s.run("100 ms")

Assumes: one thread at a time uses a simulation.
Guarantees: pieces end bit for bit where one long run does, on every target; values are numpy arrays in canonical units
(ms, mV, pA, nS, pF), copies of what the target holds, and an assignment writes them back. Nothing is written but into a
temporary folder, which goes with the simulation.
Does not: draw plots, check the model's `expect`, or stop at the model's `duration`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from compiler.core.diagnostics import did_you_mean
from compiler.runtime.common.arguments import integer_or_none, path_of, settings_of, text_or_none
from compiler.runtime.common.options import Options, PathArgument
from compiler.runtime.prepare import whole_steps
from compiler.runtime.spiking.quantities import Missing, Synapses, Variable, population_variables, refused, synapses_of
from compiler.runtime.spiking.stepper import State, Stepper

if TYPE_CHECKING:
    import compiler.ir.level0.model as l0

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
_TIME: Final = "a time such as '100 ms'"
Callback = Callable[["Simulation"], object]
"""Is given the simulation; the run that it is called in ends when it returns True."""


class Quantity(np.ndarray[Any, np.dtype[Any]]):
    """A copy of the values of a variable. `unit`: its canonical unit. An assignment to elements of what an attribute
    returned (`s["exc"].v[3] = -60`) is written back; results of arithmetic are plain arrays."""

    unit: str
    _write: Callable[[npt.ArrayLike], None] | None

    @classmethod
    def of(cls, values: npt.ArrayLike, unit: str, write: Callable[[npt.ArrayLike], None] | None) -> Quantity:
        made = np.asarray(values).view(cls)
        made.unit, made._write = unit, write
        return made

    def __array_finalize__(self, source: object) -> None:
        self.unit, self._write = getattr(source, "unit", "1"), None

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **options: Any) -> Any:
        plain = [np.asarray(x) if isinstance(x, Quantity) else x for x in inputs]
        if out is not None:
            options["out"] = tuple(np.asarray(x) if isinstance(x, Quantity) else x for x in out)
        result = getattr(ufunc, method)(*plain, **options)
        return out[0] if out is not None and len(out) == 1 else result

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, value)
        if self._write is not None:
            self._write(np.asarray(self))


class _Variables:
    """Variables as attributes, and by name: `x.v`, `x["pool.gi"]`."""

    _stepper: Stepper
    _name: str

    def _table(self) -> Mapping[str, Variable]:
        raise NotImplementedError

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of everything that can be read."""
        return tuple(self._table())

    def _variable(self, name: str) -> Variable:
        table = self._table()
        if name not in table:
            listed = ", ".join(f"`{n}`" for n in table) or "none"
            raise refused(
                f"`{self._name}` has no variable `{name}` that can be read",
                did_you_mean(name, table) or f"it has {listed}",
                Missing,
            )
        return table[name]

    def __getitem__(self, name: str) -> Quantity:
        variable = self._variable(name)

        def write(values: npt.ArrayLike) -> None:
            self._stepper.write(variable, values)

        return Quantity.of(variable.read(self._stepper.instance), variable.unit, write)

    def __setitem__(self, name: str, values: npt.ArrayLike) -> None:
        self._stepper.write(self._variable(name), values)

    def __getattr__(self, name: str) -> Quantity:
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            object.__setattr__(self, name, value)
        else:
            self[name] = value

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *(n for n in self._table() if n.isidentifier())]


class PopulationView(_Variables):
    """A population of a simulation. Attributes are its states, inputs and parameters, by neuron; those that are one
    number of the model can be read, not written (`Simulation.set` changes them)."""

    def __init__(self, simulation: Simulation, population: l0.Population) -> None:
        self._stepper, self._name, self._population = simulation._stepper, population.name, population

    def __repr__(self) -> str:
        return f"<netloom population {self._name}: {len(self)} neurons; {', '.join(self.variables)}>"

    def __len__(self) -> int:
        return self._population.size

    def _table(self) -> Mapping[str, Variable]:
        return population_variables(self._population, self._stepper.program)

    @property
    def spikes(self) -> tuple[Floats, Indices]:
        """(times in ms, neurons) recorded so far, by time, then neuron. Raises RunError (E0935) where the model
        does not record them."""
        return self._stepper.spikes(self._name)

    def events(self, event: str) -> tuple[Floats, Indices]:
        """(times in ms, neurons) recorded so far of an event with a condition, by time, then neuron. Raises RunError
        (E0935) where the model does not record them."""
        return self._stepper.events(self._name, event)

    def trace(self, variable: str) -> tuple[Floats, npt.NDArray[Any]]:
        """(times in ms, values (samples, members)) of a recorded variable. Raises RunError (E0935)."""
        return self._stepper.trace(self._name, variable)

    @property
    def rate(self) -> tuple[Floats, Floats]:
        """(times in ms, Hz) of the recorded bins. Raises RunError (E0935)."""
        return self._stepper.rate(self._name)


class ProjectionView(_Variables):
    """The synapses from one population to another. Attributes are their variables, by synapse; `source` and `target`
    (Indices) are the neurons that each connects, -1 for a vacant place."""

    def __init__(self, stepper: Stepper, name: str, synapses: Synapses) -> None:
        self._stepper, self._synapses = stepper, synapses
        self._name = f"{name}[{synapses.source}->{synapses.target}]"

    def __repr__(self) -> str:
        return f"<netloom projection {self._name}: {', '.join(self.variables)}>"

    def __len__(self) -> int:
        """The number of synapses; of a convolution, of kernel elements."""
        if self._synapses.count is not None:
            return self._synapses.count
        return max((len(v.read(self._stepper.instance)) for v in self._table().values()), default=0)

    def _table(self) -> Mapping[str, Variable]:
        return self._synapses.variables

    @property
    def source(self) -> Indices:
        return self._ends(0)

    @property
    def target(self) -> Indices:
        return self._ends(1)

    def events(self, event: str) -> tuple[Floats, Indices]:
        """(times in ms, neurons) recorded so far of an event of the synapses, by time, then neuron. Raises RunError
        (E0935) where the model does not record them."""
        return self._stepper.events(self._name, event)

    def _ends(self, which: int) -> Indices:
        ends = self._synapses.read_ends(self._stepper.instance)
        if ends is None:
            raise refused(f"the synapses of `{self._name}` are shared by positions: they have no ends of their own")
        return ends[which]


class Projections(Mapping[str, ProjectionView]):
    """Projections by name; one that connects several pairs of populations by name and pair: `excitation[exc->inh]`.
    One that connects a single pair has both names; it is counted and listed once, by the short one."""

    def __init__(self, stepper: Stepper) -> None:
        self._found: dict[str, ProjectionView] = {}
        self._listed: list[str] = []
        for projection in stepper.model.projections:
            views = [
                ProjectionView(stepper, projection.name, s)
                for s in synapses_of(stepper.model, stepper.program, stepper.instance, projection)
            ]
            self._found |= {view._name: view for view in views}
            if len(views) == 1:
                self._found[projection.name] = views[0]
            self._listed += [projection.name] if len(views) == 1 else [view._name for view in views]

    def __getitem__(self, name: str) -> ProjectionView:
        if name not in self._found:
            listed = ", ".join(f"`{n}`" for n in self) or "none"
            parts = [n for n in self._found if n.startswith(f"{name}[")]
            help = did_you_mean(name, self._found) or f"there are {listed}"
            if parts:
                help = f"it has several parts: {', '.join(f'`{n}`' for n in parts)}"
            raise refused(f"there is no projection `{name}`", help, Missing)
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._listed)

    def __len__(self) -> int:
        return len(self._listed)


class Simulation:
    """A simulation that stands after some step; made by `Model.simulation`."""

    def __init__(self, path: Path, options: Options, kept: object) -> None:
        self._kept = kept  # the Model, whose files go with it
        self._temporary = tempfile.TemporaryDirectory(prefix="netloom-simulation-")
        self._stepper = Stepper(path, options, Path(self._temporary.name))
        self._callbacks: list[tuple[int, Callback]] = []
        self._running = False
        self._lengths: dict[str, int] = {}

    def __repr__(self) -> str:
        return f"<netloom.Simulation of {self._stepper.model.name} at {self.time:g} ms>"

    def __enter__(self) -> Simulation:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Free the memory of the target and remove the temporary folder; happens anyway when nothing refers to the
        simulation any more."""
        self._stepper.close()
        self._temporary.cleanup()

    @property
    def time(self) -> float:
        """ms since the end of the warm-up; negative before the first `run` of a model with a warm-up, which comes with
        the first piece."""
        return self._stepper.time

    @property
    def step(self) -> int:
        """Steps since the beginning, warm-up included."""
        return self._stepper.done

    # ---------------------------------------------------------------------------------------------- runs

    def run(self, duration: str | None = None, *, steps: int | None = None) -> None:
        """Go on for a time such as "100 ms", or some `steps`. Raises RunError (E0912: not a whole number of steps;
        E0908: a state that is not finite, looked for every 1,000 steps; E0935)."""
        count = self._lengths.get(duration) if duration is not None else None
        if count is None or steps is not None:
            count = self._count(text_or_none("duration", duration, _TIME), steps)
        if self._running:
            raise refused("a callback of a simulation cannot run the simulation that it is called from")
        if not self._callbacks:
            self._stepper.advance(count)
            return
        self._running = True
        try:
            self._run(count)
        finally:
            self._running = False

    def _count(self, duration: str | None, steps: int | None) -> int:
        if (duration is None) is (steps is None):
            raise refused("`run` is given a duration such as '100 ms', or `steps`")
        if duration is None:
            return integer_or_none("steps", steps, 0) or 0
        count = whole_steps(duration, self._stepper.simulate.dt, 0)
        self._lengths[duration] = count
        return count

    def _run(self, count: int) -> None:
        stepper = self._stepper
        warmup = stepper.simulate.warmup
        if stepper.done < warmup:
            stepper.advance(0)
        end = stepper.done + count
        while stepper.done < end:
            done = stepper.done - warmup
            stepper.advance(min(end - warmup, *((done // k + 1) * k for k, _ in self._callbacks)) - done)
            now = stepper.done - warmup
            ended = [stepper.ended, *(f(self) is True for k, f in tuple(self._callbacks) if now % k == 0)]
            if any(ended):
                return

    def every(self, interval: str, call: Callback) -> Callable[[], None]:
        """Call `call(simulation)` at the end of each interval of simulated time, counted from the end of the warm-up;
        when it returns True, the `run` ends there. The result is a function that removes the callback."""
        steps = whole_steps(text_or_none("interval", interval, _TIME) or "", self._stepper.simulate.dt, 0)
        if steps < 1 or not callable(call):
            raise refused("`every` is given an interval of at least one step, and a function of the simulation")
        entry = (steps, call)
        self._callbacks.append(entry)

        def remove() -> None:
            if entry in self._callbacks:
                self._callbacks.remove(entry)

        return remove

    # -------------------------------------------------------------------------------------------- values

    def __getitem__(self, population: str) -> PopulationView:
        found = {p.name: p for p in self._stepper.model.populations}
        if population not in found:
            listed = ", ".join(f"`{n}`" for n in found)
            help = did_you_mean(str(population), found) or f"there are {listed}"
            raise refused(f"there is no population `{population}`", help, Missing)
        return PopulationView(self, found[population])

    def __iter__(self) -> Iterator[str]:
        return iter(self.populations)

    @property
    def populations(self) -> tuple[str, ...]:
        """The names of the populations."""
        return tuple(p.name for p in self._stepper.model.populations)

    @cached_property
    def projections(self) -> Projections:
        """The projections, by name."""
        return Projections(self._stepper)

    def set(self, settings: Mapping[str, Any] | None = None, **values: Any) -> None:
        """Other values of the model's parameters, from the next step on; nothing is compiled. States, learned weights
        and what was written stay as they are. Raises RunError (E0935) where sizes, steps or connections would change;
        ModelError for a value that the model does not allow."""
        given = settings_of("set", {**(settings or {}), **values})
        self._stepper.change(given)
        self.__dict__.pop("projections", None)

    @property
    def ended(self) -> bool:
        """Whether the last `run` ended because the model's `stop` was met."""
        return self._stepper.ended

    def table(self, name: str = "table") -> dict[str, Floats]:
        """The columns of a recorded table so far. Raises RunError (E0935)."""
        return {n: np.array(v, np.float64) for n, v in self._stepper.table(name).items()}

    # --------------------------------------------------------------------------------------- checkpoints

    def checkpoint(self, path: PathArgument | None = None) -> State | Path:
        """The state, in memory, for `restore`; or the `path` of a file that it is written to, which
        `netloom run --resume` reads too. Raises RunError (E0930)."""
        if path is None:
            return self._stepper.state()
        where = path_of("path", path)
        self._stepper.save(where)
        return where

    def restore(self, checkpoint: State | PathArgument) -> None:
        """Go back (or on) to a checkpoint. What was recorded after it is dropped; of a file, records begin anew.
        Raises RunError (E0935, E0909, E0927)."""
        if isinstance(checkpoint, State):
            self._stepper.restore(checkpoint)
        else:
            self._stepper.load(path_of("checkpoint", checkpoint))
