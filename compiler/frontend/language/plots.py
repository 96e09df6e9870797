"""Plots in the language: plots.

Assumes: expr/keys/kinds.py, expr/keys/values.py.
Guarantees: every key of these blocks, with its hover text, default and example. Nothing here affects the model's hash.
Does not: check that what is drawn is recorded.
"""

from __future__ import annotations

from functools import partial

import compiler.expr.keys.kinds as k
from compiler.expr import units
from compiler.expr.keys.values import DURATION, POPULATIONS, POSITIVE_TIME, QUANTITY, TEMPLATE_KEY
from compiler.frontend.language.recording import VARIABLE, bins

_RECORDED = k.required(
    "from", k.Reference("projection", "plastic", TEMPLATE_KEY), "The projection with recorded synapses."
)
_RECORDED_VARIABLE = k.required("variable", VARIABLE, "The recorded variable.", example="variable: w")

_TIME = k.Field(
    "time",
    k.ListOf(DURATION, low=2, high=2, example="[100 ms, 300 ms]"),
    "The part of the time axis that is shown; without it, all that was recorded.",
)
_LIMITS = k.Field(
    "limits",
    k.ListOf(QUANTITY, low=2, high=2, example="[-80 mV, -40 mV]"),
    "The ends of the vertical axis; without it, all values fit.",
)
_LOOK = (
    k.Field("title", k.Text("a title", "Balanced network"), "What stands above the figure.", example="title: Balanced"),
    k.Field(
        "size",
        k.ListOf(k.Value("a length", "16 cm", low=0, above=True, dimension=units.LENGTH), 2, 2, "[16 cm, 10 cm]"),
        "Width and height of the figure.",
    ),
    k.Field(
        "style",
        k.Text("a style", "paper"),
        "`paper` (small letters, one column wide), a style of matplotlib, or a `.mplstyle` file.",
    ),
    k.Field(
        "images",
        k.ListOf(
            k.choice("image format", png="Pixels.", svg="Vectors, for pages.", pdf="Vectors, for papers."),
            low=1,
            example="[pdf]",
        ),
        "The files that are written; without it, a PNG and an SVG.",
    ),
)
_SPIKING = k.required("from", POPULATIONS, "Populations whose spikes are recorded.", example="from: [exc, inh]")


_BIN = k.Field("bin", POSITIVE_TIME, "The width of a bin, whole steps.", default="1 ms", example="bin: 1 ms")

_plot = partial(k.entry, "plot")

PLOTS = k.ListOf(
    k.OneKey(
        "plot",
        (
            _plot("raster", "Spikes over time, a row per neuron, with the rates below.", _SPIKING, _TIME, *_LOOK),
            _plot(
                "trace",
                "A variable over time, a line per recorded neuron.",
                k.required("from", POPULATIONS, "Populations with a recorded trace."),
                k.required("variable", VARIABLE, "The recorded variable."),
                k.switch("spikes", "Mark the spikes of the neurons that are shown, where they are recorded.", True),
                _TIME,
                _LIMITS,
                *_LOOK,
                elsewhere={"variables": "`variable`"},
            ),
            _plot(
                "rate",
                "The rates of populations over time.",
                k.required("from", POPULATIONS, "Populations with a recorded rate.", example="from: [exc, inh]"),
                _TIME,
                *_LOOK,
            ),
            _plot(
                "histogram",
                "How a variable of recorded synapses is distributed at the start of the recording and at its end.",
                _RECORDED,
                _RECORDED_VARIABLE,
                bins(10_000),
                *_LOOK,
                elsewhere={"variables": "`variable`"},
            ),
            _plot(
                "matrix",
                "The connections as a matrix, a row per target and a column per source, coloured by a variable of "
                "recorded synapses at the end.",
                _RECORDED,
                _RECORDED_VARIABLE,
                *_LOOK,
                elsewhere={"variables": "`variable`"},
            ),
            _plot(
                "evolution",
                "A variable of recorded synapses over time: some synapses, the mean of all, and how they are "
                "distributed.",
                _RECORDED,
                _RECORDED_VARIABLE,
                _TIME,
                _LIMITS,
                *_LOOK,
                elsewhere={"variables": "`variable`"},
            ),
            _plot(
                "isi",
                "How the intervals between spikes of a neuron are distributed, and their coefficient of variation (CV) "
                "over neurons.",
                _SPIKING,
                *_LOOK,
            ),
            _plot(
                "spectrum",
                "The power spectral density of the rate of populations, by Welch's method.",
                _SPIKING,
                _BIN,
                *_LOOK,
            ),
            _plot(
                "correlogram",
                "The correlation of the rates of populations over the lag, of each with itself and with each other.",
                _SPIKING,
                _BIN,
                k.Field("lag", POSITIVE_TIME, "The largest lag, whole steps.", default="50 ms", example="lag: 50 ms"),
                *_LOOK,
            ),
            _plot(
                "psth",
                "The rate of populations over the time since a stimulus, the mean over trials (peri-stimulus time "
                "histogram).",
                _SPIKING,
                k.required(
                    "every",
                    POSITIVE_TIME,
                    "The time between two stimuli (trials), whole steps, counted from the end of the warm-up.",
                    example="every: 100 ms",
                ),
                _BIN,
                *_LOOK,
                elsewhere={"period": "`every`", "trial": "`every`"},
                example="{from: exc, every: 100 ms}",
            ),
            _plot(
                "connectivity",
                "The expected number of synapses from each population to each neuron of the others.",
                *_LOOK,
            ),
            _plot("training", "Loss and metrics over the epochs of training.", *_LOOK),
        ),
        title="plot",
        doc="One figure.",
        elsewhere=k.instead(
            "`histogram` or `evolution`: weights",
            "`spectrum`: psd",
            "`isi`: cv",
            "`correlogram`: crosscorrelogram",
            "`rate`: rates",
            "`training`: loss metrics",
            "`raster`: spikes",
            "`trace`: traces",
        ),
    ),
    example="[{raster: {from: exc}}]",
)
