"""Recording in the language: record.

Assumes: expr/keys/kinds.py, expr/keys/values.py.
Guarantees: every key of these blocks, with its hover text, default and example. Nothing here affects the model's hash.
Does not: check the variables of a population or a projection.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import compiler.expr.keys.kinds as k
import compiler.expr.keys.values as v

_VARIABLES: k.Kind = k.ListOf(
    k.Pattern("a variable", rf"^(population\.|pool\.)?{k.NAME}$", "v"), low=1, example="[v, ge]"
)
_FROM = k.required(
    "from", v.POPULATIONS, "The populations that are recorded; `all` and classes mean those that have it."
)
_EVERY = k.Field(
    "every",
    v.POSITIVE_TIME,
    "The time between two samples, a whole number of steps; without it, every step.",
    example="every: 1 ms",
)
_EVERY_SAMPLE = k.Field(
    "every",
    v.POSITIVE_TIME,
    "The time between two samples, a whole number of steps; without it, the end of the run only.",
    example="every: 1 s",
)
_EVERY_ROW = k.Field(
    "every", v.POSITIVE_TIME, "The time between two rows, a whole number of steps.", example="every: 100 ms"
)
_AT = k.Field(
    "at",
    v.EVENT,
    "An event of `phases`, in place of `every`: one sample per trial, at the end of the step that ends then, after "
    "everything that happens in it; of an event at 0 ms, when the trial before has ended.",
    example="at: trial.plus",
)
_PROJECTION = k.required("from", k.Reference("projection", "plastic", v.TEMPLATE_KEY), "The projection.")
_BETWEEN = k.Field(
    "between",
    k.ListOf(v.DURATION, low=2, high=2, example="[1 s, 2 s]"),
    "The part of the simulated time that is kept, whole numbers of steps; without it, all of it.",
)
_MEMBERS: k.Kind = k.OneOf(
    (k.Pattern("`all` or a range", r"^(?:all|\d+\.\.\d+)$", "0..9"), k.ListOf(v.COUNT, low=1, example="[0, 5, 7]"))
)
VARIABLE = k.Reference("variable", "v")
_SOME = k.Field(
    "members",
    _MEMBERS,
    "Which neurons: `all`, a range such as `0..9` (both ends included), or a list of indices from 0.",
    default="all",
)


def bins(most: int) -> k.Field:
    return k.Field("bins", replace(v.POSITIVE, high=most), "The number of bars.", default=20, example="bins: 20")


def _recording(
    name: str,
    doc: str,
    *fields: k.Field,
    elsewhere: Mapping[str, str],
    one_of: tuple[tuple[str, ...], ...] = (),
    example: str | None = None,
) -> k.Alternative:
    return k.entry(
        "recording", name, doc, *fields, title=f"record_{name}", example=example, one_of=one_of, elsewhere=elsewhere
    )


RECORD = k.ListOf(
    k.OneKey(
        "recording",
        (
            _recording(
                "spikes",
                "The spikes of populations, written to `spikes.h5`.",
                _FROM,
                _SOME,
                _BETWEEN,
                elsewhere=k.instead("`from`: of population", "`members`: neurons indices"),
                example="{from: [exc, inh]}",
            ),
            _recording(
                "trace",
                "Variables over time, sampled at the end of a step, written to `traces.h5`.",
                _FROM,
                k.required(
                    "variables",
                    _VARIABLES,
                    "State variables and inputs of the neurons; variables of their pools as `pool.gi`, which "
                    "are recorded for all pools.",
                ),
                _SOME,
                _EVERY,
                _AT,
                _BETWEEN,
                elsewhere=k.instead(
                    "`variables: [...]`: variable",
                    "`members`: neurons indices",
                    "`every`: dt interval",
                    "`from`: of population",
                ),
                example="{from: exc, variables: [v], members: 0..9}",
            ),
            _recording(
                "rate",
                "The mean rate of a population in bins of time, written to `rates.h5`.",
                _FROM,
                k.Field(
                    "every", v.POSITIVE_TIME, "The width of a bin, a whole number of steps.", example="every: 10 ms"
                ),
                k.Field(
                    "at",
                    v.EVENT,
                    "An event of `phases`, in place of `every`: a bin ends there in each trial and lasts as "
                    "long as one; with the end of the trial, it is the mean rate in each trial.",
                ),
                one_of=(("every", "at"),),
                elsewhere={"bin": "`every`", "bins": "`every`", "of": "`from`", "population": "`from`"},
                example="{from: [exc, inh], every: 10 ms}",
            ),
            _recording(
                "events",
                "Events of synapses, or of neurons, with conditions of their own, written to `events.h5`: which "
                "neurons they were of, and when the condition held.",
                k.required(
                    "from",
                    v.POPULATIONS,
                    "A projection, for events of its synapses, or populations, for events of their neurons.",
                    example="from: plastic",
                ),
                k.required("events", v.NAMES, "Events with conditions, by name.", example="events: [release]"),
                _BETWEEN,
                elsewhere={"event": "`events: [...]`", "of": "`from`", "projection": "`from`"},
            ),
            _recording(
                "synapses",
                "Variables of all synapses of a projection over time, with their sources and targets, written to "
                "`synapses.h5`: source by source, targets ascending; given pairs in the order of the model.",
                _PROJECTION,
                k.required(
                    "variables",
                    v.NAMES,
                    "State variables of the synapses; of static synapses `weight`, and `delay` where it "
                    "differs from synapse to synapse.",
                    example="variables: [w]",
                ),
                _EVERY_SAMPLE,
                _AT,
                elsewhere={"variable": "`variables: [...]`", "of": "`from`", "projection": "`from`"},
                example="{from: plastic, variables: [w], every: 1 s}",
            ),
            _recording(
                "histogram",
                "How a variable of the synapses is distributed over time, written to `synapses.h5`: a count per bar "
                "and sample, where the synapses are too many to be kept one by one.",
                _PROJECTION,
                k.required(
                    "variable",
                    VARIABLE,
                    "A state variable of the synapses, or the `weight` of static ones.",
                    example="variable: w",
                ),
                k.required(
                    "range",
                    k.ListOf(v.QUANTITY, low=2, high=2, example="[0, 1]"),
                    "The edges of the first and of the last bar; what lies outside is not counted.",
                ),
                bins(100_000),
                _EVERY_SAMPLE,
                _AT,
                elsewhere={"variables": "`variable`", "of": "`from`", "projection": "`from`"},
                example="{from: plastic, variable: w, range: [0, 1], every: 1 s}",
            ),
            _recording(
                "table",
                "Numbers of the whole network over time, a row for each, written to `tables/NAME.csv`.",
                k.Field(
                    "name",
                    k.Name("learning"),
                    "The name of the file, `tables/NAME.csv`, and of its columns elsewhere (`NAME.column`).",
                    default="table",
                ),
                k.required(
                    "columns",
                    k.MapOf(
                        "column",
                        k.Expression("mean(output.wrong)"),
                        low=1,
                        example="{error: mean(output.wrong), weight: mean(plastic.w)}",
                    ),
                    "Expressions over `sum`, `mean`, `min` and `max` of what the neurons of a population, "
                    "or the synapses of a projection, hold then.",
                    example="columns: {error: mean(output.wrong)}",
                ),
                _EVERY_ROW,
                _AT,
                k.Field(
                    "format",
                    k.choice(
                        "format",
                        csv="Text, which grows row by row.",
                        parquet="That, and `tables/NAME.parquet` when the run ends.",
                    ),
                    "The format of the file. Parquet needs pyarrow (extra `parquet`).",
                    default="csv",
                ),
                one_of=(("every", "at"),),
                elsewhere={"values": "`columns`", "variables": "`columns`"},
                example="{columns: {error: mean(output.wrong)}, at: trial.end}",
            ),
        ),
        title="recording",
        doc="One thing that is recorded. Recording never changes the result.",
        elsewhere=k.instead(
            "`trace`: traces state",
            "`spikes`: spike",
            "`trace: {variables: [v]}`: voltage",
            "`synapses: {variables: [...]}`: weights",
            "`rate`: rates",
        ),
    ),
    example="[{spikes: {from: exc}}]",
)
