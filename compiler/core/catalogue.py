"""The catalogue of diagnostic codes, which `netloom explain E0101` prints.

Assumes: nothing.
Guarantees: one entry per code; the meaning of a code never changes, and a removed code is never reused.
Groups: E00 file and YAML, E01 structure, E02 references and expansion, E03 expressions, E04 units, E05 shapes and
tensors, E06 spiking, E07 data files, E08 not supported, E09 tools and targets, W0 warnings.
Does not: say which code reports what; tests/unit/test_codes.py checks that each is used and each is
listed.

It is long because it is a table, with one call per code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True)
class CodeInfo:
    """The documentation of one code; the examples are YAML, empty where none fits."""

    title: str
    explanation: str
    example_bad: str = ""
    example_good: str = ""


def _code(code: str, title: str, explanation: str, bad: str = "", good: str = "") -> tuple[str, CodeInfo]:
    return code, CodeInfo(title, explanation, bad, good)


_FILE_AND_YAML: Final = (
    _code(
        "E0001",
        "the file is not valid YAML",
        "The YAML parser cannot go on at this place, for a reason that has no code of its own.",
    ),
    _code(
        "E0002",
        "the file cannot be read",
        "There is no such file, it is a directory, or its permissions do not allow reading it.",
    ),
    _code(
        "E0003",
        "the file is empty",
        "A model file holds one YAML document, a mapping that begins with `language: 1`.",
        "# nothing but comments",
        "language: 1\nname: cuba",
    ),
    _code(
        "E0004",
        "the file is not UTF-8",
        "Model files are UTF-8. The position is that of the first byte that does not fit. Files "
        "from older editors are often Latin-1 or Windows-1252: save them as UTF-8.",
    ),
    _code(
        "E0005",
        "a byte order mark where none may stand",
        "The file is encoded as UTF-16, or a byte order mark stands in the middle of it, which "
        "happens when files are joined.",
    ),
    _code(
        "E0006",
        "a character that is not allowed",
        "Control characters, NUL, lone carriage returns and the Unicode line separators cannot be"
        " seen and mean different things to different readers of YAML.",
    ),
    _code(
        "E0007",
        "a tab in the indentation",
        "YAML is indented with spaces.",
        "populations:\n\texc: {size: 10}",
        "populations:\n  exc: {size: 10}",
    ),
    _code(
        "E0008",
        "a key stands twice in one mapping",
        "Each key may stand once. Most often a block was copied and its name left unchanged.",
        "params: {n: 1, n: 2}",
        "params: {n: 1, m: 2}",
    ),
    _code(
        "E0009",
        "a key is not a string",
        "Keys are strings. YAML reads `0`, `true` and `null` as a number, a truth value and "
        "nothing; lists and mappings cannot be keys at all. Names begin with a letter.",
        "populations: {0: {size: 10}}",
        "populations: {p0: {size: 10}}",
    ),
    _code(
        "E0010",
        "a merge key",
        "`<<` belongs to YAML 1.1. Settings are shared with `classes`, `use`, or an anchor for a whole value.",
        "base: &base {neuron: lif}\nexc: {<<: *base, size: 10}",
        "exc: {classes: [base], size: 10}",
    ),
    _code(
        "E0011",
        "a tag",
        "Tags such as `!include` or `!!str` are not part of the language. Put a value in quotes "
        "to make it a string; `use` takes over blocks of other files.",
        "name: !!str 12",
        'name: "12"',
    ),
    _code(
        "E0012",
        "more than one document",
        "A file holds one document; `---` may stand before it only.",
    ),
    _code(
        "E0013",
        "a directive",
        "Only `%YAML 1.2` may stand before the document. The language reads all files by the rules of YAML 1.2.",
        "%YAML 1.1\n---\nlanguage: 1",
        "language: 1",
    ),
    _code(
        "E0014",
        "nesting is too deep",
        "Mappings and lists may be nested 100 levels deep, aliases counted. No model needs more than about 15.",
    ),
    _code(
        "E0015",
        "the file is too large",
        "A YAML file may have 64 MiB. Arrays stand in .npy, .npz or .csv files; many similar "
        "blocks are written once with `for`.",
    ),
    _code(
        "E0016",
        "aliases expand to too many nodes",
        "Aliases of aliases multiply: ten levels of ten make ten thousand million nodes. The limit is 1,000,000.",
    ),
    _code(
        "E0017",
        "an alias inside of its own anchor",
        "The value would contain itself.",
        "a: &a [1, *a]",
        "a: &a [1, 2]",
    ),
    _code(
        "E0018",
        "an alias without anchor",
        "`*name` repeats the value that was marked `&name` before. A value that begins with `*` needs quotes.",
        "reset: *v",
        'reset: "*v"',
    ),
    _code(
        "E0019",
        "a number that cannot be represented",
        "Numbers are 64-bit floating point numbers or integers of at most 300 digits.",
        "value: 1e999",
        "value: .inf",
    ),
    _code(
        "E0020",
        "a colon and a space inside of a value",
        "In a value without quotes, `: ` would begin a nested mapping, which cannot stand on the same line.",
        "description: Note: a test",
        'description: "Note: a test"',
    ),
    _code(
        "E0021",
        "a quoted string is not closed",
        "The closing quote is missing. In single quotes, a quote is written twice.",
        "name: 'cuba",
        "name: cuba",
    ),
    _code(
        "E0022",
        "brackets do not match",
        "A `[` or `{` is not closed, a bracket closes nothing, or a comma between items is missing.",
        "to: [exc, inh",
        "to: [exc, inh]",
    ),
    _code(
        "E0023",
        "a value begins with a character that has a meaning of its own",
        "A value without quotes cannot begin with @ ` % & * ! | > , ] or }.",
        "description: @home",
        'description: "@home"',
    ),
    _code(
        "E0024",
        "the indentation fits nothing",
        "The line is indented neither like the entries above it nor like any block that encloses them.",
        "exc:\n  size: 10\n neuron: lif",
        "exc:\n  size: 10\n  neuron: lif",
    ),
    _code(
        "E0025",
        "an unknown escape",
        "In double quotes, a backslash begins an escape such as \\n or \\u00e9. In single quotes it does not.",
        'file: "data\\digits.npz"',
        "file: data/digits.npz",
    ),
    _code(
        "E0026",
        "a colon is missing",
        "An entry of a mapping is `key: value`, with a space after the colon.",
        "exc:\n  size 10\n  neuron: lif",
        "exc:\n  size: 10\n  neuron: lif",
    ),
    _code(
        "E0027",
        "a list begins on the line of its key",
        "A list with one item per line begins on the line after its key.",
        "record: - spikes: {from: exc}",
        "record:\n  - spikes: {from: exc}",
    ),
    _code(
        "E0028",
        "a comma inside of parentheses ends an item",
        "In `[...]` and `{...}`, YAML ends an item at each comma and does not know about parentheses.",
        "reset: [w = clip(w, 0, 1)]",
        "reset:\n  - w = clip(w, 0, 1)",
    ),
)

_STRUCTURE: Final = (
    _code(
        "E0101",
        "an unknown key",
        "Every block has a fixed set of keys. Free fields are allowed under names that begin with `x-`.",
        "popultions: {}",
        "populations: {}",
    ),
    _code(
        "E0102",
        "a value of the wrong type",
        "A mapping, a list, a string, a number or a truth value stands where another is expected."
        " Note that `on`, `off`, `yes` and `no` are strings in YAML 1.2.",
        "params: [1, 2]",
        "params: {a: {value: 1}}",
    ),
    _code("E0103", "a key is missing", "The block cannot be understood without this key."),
    _code(
        "E0104",
        "a map with one key is expected",
        "A choice among kinds (a layer, a connectivity, a distribution, a loss) is a map whose "
        "only key names the kind.",
        "connect: {all_to_all: {}, one_to_one: {}}",
        "connect: {all_to_all: {}}",
    ),
    _code(
        "E0105",
        "a value that is none of the choices",
        "Only the listed words may stand here.",
        "method: rk3",
        "method: rk4",
    ),
    _code(
        "E0106",
        "a value out of range",
        "The number is smaller or larger than what the key allows, or a list has the wrong length.",
        "size: -3",
        "size: 3",
    ),
    _code(
        "E0107",
        "a bad name",
        "Names consist of letters, digits and underscores and begin with a letter.",
        "populations: {2nd: {neuron: lif, size: 1}}",
        "populations: {second: {neuron: lif, size: 1}}",
    ),
    _code(
        "E0108",
        "keys that exclude each other",
        "Only one of these keys may stand in the block.",
    ),
)

_REFERENCES: Final = (
    _code(
        "E0201",
        "an unknown reference",
        "A population, neuron, synapse, optimizer, layer or class of this name does not exist.",
        "from: exitatory",
        "from: excitatory",
    ),
    _code(
        "E0202",
        "a definition that uses itself",
        "`use` takes over another block, which may use a third; the chain has come back to where it began.",
        "neurons: {a: {use: b}, b: {use: a}}",
        "neurons: {a: {use: b}, b: {use: library/neurons/lif}}",
    ),
    _code(
        "E0203",
        "the target of `use` is not found",
        "`use` names a definition of this file, `library/<kind>/<name>`, or "
        "`path/to/file.yaml#name`, whose path counts from the folder of the file in which it "
        "stands.",
        "use: library/neurons/adx",
        "use: library/neurons/adex",
    ),
    _code(
        "E0204",
        "`--set` or `sweep` names no parameter",
        "Only what stands under `params:` can be changed from outside.",
        "netloom run cuba.yaml --set n_ex=100",
        "netloom run cuba.yaml --set n_exc=100",
    ),
    _code(
        "E0205",
        "a parameter out of bounds",
        "The value is below `min` or above `max` of the parameter.",
        "params: {p: {value: 1.5, max: 1}}",
        "params: {p: {value: 0.5, max: 1}}",
    ),
    _code(
        "E0206",
        "a parameter of the wrong type",
        "The value does not fit the `type` of the parameter: `int`, `float` (with or without "
        "unit), `bool` or `string`.",
        "params: {n: {value: 0.5, type: int}}",
        "params: {n: {value: 5, type: int}}",
    ),
    _code(
        "E0207",
        "two entries with one name after expansion",
        "Copies that `for` or `repeat` makes need different names: every loop variable stands in "
        "the key, and no copy is called like another entry.",
        "populations:\n  p: {for: {i: 0..9}, neuron: lif, size: 1}",
        'populations:\n  "p{i}": {for: {i: 0..9}, neuron: lif, size: 1}',
    ),
    _code(
        "E0208",
        "a range, a list of loop values or a count that cannot be understood",
        "`for` takes `{i: 0..9}` (both ends included), `{i: 10}` (0 to 9) or `{i: [1, 2, 5]}`; "
        "ends and counts are integers or expressions over `params`. At most 100,000 copies are "
        "made.",
        "for: {i: 0.5}",
        "for: {i: 0..n - 1}",
    ),
    _code(
        "E0209",
        "a template that cannot be filled in",
        "In a block with `for`, text in braces is an expression over the loop variables and "
        "`params`, as in `p{(i + 1) % n}`.",
        "from: p{k}",
        "from: p{i}",
    ),
    _code(
        "E0212",
        "one name for two things",
        "Within a definition, parameters, state variables, inputs and named expressions share one set of names, "
        "and none of them may be called like something that the language gives.",
        "neurons: {cell: {params: {v: 1 mV}, state: {v: 0 mV}}}",
        "neurons: {cell: {params: {v_rest: 1 mV}, state: {v: 0 mV}}}",
    ),
    _code(
        "E0213",
        "a plot or an expectation of what is not recorded",
        "Plots and expectations read what a run has written: spikes and traces that stand under `record`, and the "
        "loss and the metrics of `train`.",
        "plots: [{raster: {from: inh}}]",
        "record: [{spikes: {from: inh}}]\nplots: [{raster: {from: inh}}]",
    ),
)

_EXPRESSIONS: Final = (
    _code(
        "E0301",
        "an expression that cannot be read",
        "Expressions are written as in Python: arithmetic, comparisons, `and`/`or`/`not`, `a if c"
        " else b` and calls. A power is `**`, and a product always needs its `*`.",
        "dv/dt: v^2 / tau",
        "dv/dt: v ** 2 / tau",
    ),
    _code(
        "E0302",
        "an unknown name in an expression",
        "A name is a parameter, a state variable, an input, a function's argument or a constant "
        "that is known at this place.",
        "dv/dt: (v_rset - v) / tau_m",
        "dv/dt: (v_rest - v) / tau_m",
    ),
    _code(
        "E0303",
        "an unknown function",
        "Functions are the built-in ones and those of the file's own `functions:`.",
        "x: ln(2)",
        "x: log(2)",
    ),
    _code(
        "E0304",
        "the wrong number of arguments",
        "The function takes another number of arguments.",
        "x: clip(v, 0)",
        "x: clip(v, 0, 1)",
    ),
    _code(
        "E0305",
        "an expression that cannot be differentiated",
        "Training needs the derivative of this expression, which holds an operation that has none, or whose derivative "
        "is too large to be written out.",
    ),
    _code(
        "E0306",
        "a truth value where a number is expected, or the reverse",
        "Comparisons and `and`/`or`/`not` give truth values; arithmetic takes numbers. `1 if c "
        "else 0` makes a number of a condition.",
        "when: v + 1",
        "when: v > 1",
    ),
    _code(
        "E0307",
        "a function or a named expression that cannot be put in where it is read",
        "The file's own functions are put in where they are called, so they cannot call "
        "themselves, directly or through others, and the result must not become too large. The same holds for "
        "expressions of `let` where an equation is solved for its variable; `method: rk4` takes them as they stand.",
        "functions:\n  f(x): f(x) + 1",
        "functions:\n  f(x): x + 1",
    ),
    _code(
        "E0308",
        "an expression that has no value",
        "Evaluating it divides by zero, takes the logarithm of a negative number, or gives a number that is too large.",
        "size: 10 / (n - n)",
        "size: 10 / n",
    ),
    _code(
        "E0309",
        "a random number where none can be drawn",
        "Random functions may stand where a value is drawn once per step or once per element, such as in "
        "`update`, not in equations that an integrator evaluates several times.",
        "dynamics: {dv/dt: (random() - v) / tau_m}",
        "update: [v = v + random()]",
    ),
    _code(
        "E0310",
        "an assignment to what cannot be assigned",
        "Statements assign to state variables, to inputs where that is allowed, and to new names of their own; "
        "parameters, named expressions and what the language gives keep their values.",
        "reset: [v_rest = v]",
        "reset: [v = v_rest]",
    ),
    _code(
        "E0311",
        "not a reduction",
        "Under `reduce`, each name is one of `sum`, `mean`, `min`, `max` (of an expression over the variables of a "
        "neuron) or `argmax` (of one variable), taken over the neurons of a pool. Arithmetic with the results stands "
        "in `update`.",
        "reduce: {spread: max(v) - min(v)}",
        "reduce: {low: min(v), high: max(v)}\nupdate: [spread = high - low]",
    ),
    _code(
        "E0312",
        "a timed array that cannot be read so",
        "A timed array gives a value for each time. It is read as `name(t)`, or as `name(t, i)` where it has a column"
        " for each neuron, in equations of neurons and currents, in the rate of a Poisson input and in a population's"
        " `params`. A shift in time belongs into its values.",
        "dynamics: {dv/dt: (drive(t - 5 ms) - v) / tau_m}",
        "dynamics: {dv/dt: (drive(t) - v) / tau_m}",
    ),
    _code(
        "E0313",
        "white noise that cannot be integrated so",
        "`xi` is Gaussian white noise with the unit 1/sqrt(time). An equation is linear in it: `f + g * xi`. Where `g`"
        " reads state variables, the stochastic integral is Ito's, which `method: euler` computes; where it does not,"
        " every method will do.",
        "dynamics: {dv/dt: -v / tau + xi ** 2}",
        "dynamics: {dv/dt: -v / tau + sigma * xi}",
    ),
    _code(
        "E0314",
        "a current that cannot go there",
        "A current is added in every step to an input that holds what arrived in the last step, or to a parameter of"
        " the equations. It cannot go into an input that decays (which would sum it up), nor into a parameter that"
        " gives a time constant or a refractory period, which are computed once.",
        "current: {into: ge, source: sine}",
        "current: {into: I_e, source: sine}",
    ),
    _code(
        "E0315",
        "nothing that could be read with the delay",
        "`delayed(pre.v)` is what a state or an input of the source was when what arrives now set out, `delay` ago, "
        "`delayed(post.v)` that of the target, `back_delay` ago. Parameters stay as they are, and variables of `pre:` "
        "and `post:` and times of spikes follow the spikes as they arrive, so they are read without it.",
        "update: [deliver(g * delayed(pre.v - post.v))]",
        "update: [deliver(g * (delayed(pre.v) - post.v))]",
    ),
)

_UNITS: Final = (
    _code(
        "E0401",
        "dimensions do not match",
        "A sum, a comparison or an assignment joins quantities of different dimensions, such as a"
        " voltage and a time. The right side of `dv/dt` has the dimension of v divided by time.",
        "dv/dt: (v_rest - v) * tau_m",
        "dv/dt: (v_rest - v) / tau_m",
    ),
    _code(
        "E0402",
        "a unit is missing",
        "A bare number stands where a quantity is expected. Only 0 needs no unit.",
        "duration: 100",
        "duration: 100 ms",
    ),
    _code(
        "E0403",
        "an unknown unit",
        "Units are SI units with prefixes, such as ms, mV, nS, pA and Hz, and products and powers of them.",
        "tau: 20 msec",
        "tau: 20 ms",
    ),
)

_SHAPES: Final = (
    _code(
        "E0501",
        "shapes do not fit together",
        "A layer, an array or an operation gets an input whose shape it cannot take.",
    ),
    _code(
        "E0502",
        "a shape is not the expected one",
        "`expect: {shape: ...}` states another shape than the one that was inferred. The batch is not part of it.",
        "expect: {shape: [16, 4, 4]}",
        "expect: {shape: [16, 5, 5]}",
    ),
    _code(
        "E0503",
        "a fusion that is required is missed",
        "Layers of a block with `fuse: required` do elementwise work in a kernel of its own, which reads and writes "
        "memory once more. The help says what is in the way. Work that needs something of the whole tensor first, as "
        "a softmax does, is not meant.",
    ),
)

_SPIKING: Final = (
    _code(
        "E0601",
        "a time is not a whole number of steps",
        "Delays and refractory periods are counted in steps of `dt`. `round: nearest` allows rounding.",
        "delay: 0.25 ms   # dt is 0.1 ms",
        "delay: 0.3 ms",
    ),
    _code(
        "E0602",
        "a method that cannot integrate these equations",
        "`exact` needs linear equations with constant coefficients, `exponential_euler` equations"
        " that are each linear in their own variable. `method: auto` takes the best that fits.",
    ),
    _code(
        "E0603",
        "spike times that cannot be emitted",
        "The times of a spike source are whole steps of `dt`, above 0 or in the warm-up, and its indices count its "
        "neurons from 0.",
    ),
    _code(
        "E0604",
        "populations that cannot be connected or recorded so",
        "`one_to_one` needs two populations of one size, and spikes come only from neurons that have a `spike` block.",
        "connect: {one_to_one: {}}   # from 10 neurons to 20",
        "connect: {all_to_all: {}}",
    ),
    _code(
        "E0605",
        "several spikes of a neuron in one step",
        "Given spikes of one neuron that share a step add up where they are delivered and recorded. A synapse that"
        " changes at each spike, draws random numbers at it or asks when the last one was would need an order of them.",
        "dt: 1 ms   # params: {times: [1.2 ms, 1.4 ms], ...}",
        "dt: 0.2 ms",
    ),
    _code(
        "E0611",
        "a storage that cannot do what these synapses do",
        "Bitmasks, rows that are drawn again and convolutions are walked from the source and hold nothing per synapse.",
        "connect: {conv2d: {kernel: [3, 3], storage: toeplitz}}   # with a synapse that learns",
        "connect: {conv2d: {kernel: [3, 3], storage: sparse}}",
    ),
)

_DATA: Final = (
    _code(
        "E0701",
        "a data file is not found",
        "Paths of data files count from the folder of the model file.",
    ),
    _code(
        "E0702",
        "an array is not in the file",
        "An .npz file holds several arrays by name; this name is not among them.",
    ),
    _code(
        "E0703",
        "an array of the wrong shape or type",
        "The array in the file has not the shape or the type of number that is needed here.",
    ),
    _code(
        "E0704",
        "a data file is not the one that was meant",
        "The model names the SHA-256 sum of the file, and the file on the disk has another one.",
    ),
    _code(
        "E0706",
        "times in a file whose unit is not one of time",
        "Times from an HDF5 file are in the unit that the attribute `units` of their data set names, such as `ms` or"
        " `s`; without the attribute they are in ms.",
    ),
)

_UNSUPPORTED: Final = (
    _code(
        "E0801",
        "a part of the language that is not supported yet",
        "The language describes this, but this version of the compiler cannot lower it. It is "
        "refused rather than ignored.",
    ),
    _code(
        "E0802",
        "a combination that is not supported yet",
        "Each part is supported by itself, but not both together.",
    ),
)

_TOOLS: Final = (
    _code(
        "E0901",
        "no C compiler",
        "The CPU target needs a C11 compiler: the one that $CC names, cc, gcc, clang, or the Python "
        "package `ziglang`. `netloom doctor` shows what is found.",
    ),
    _code(
        "E0902",
        "the compiler refused the generated code",
        "This is a fault of the code generator, unless the compiler's installation is broken or it has run out "
        "of memory or disk space.",
    ),
    _code(
        "E0903",
        "code cannot be generated",
        "The program holds something that the target has no text for. Another target may have.",
    ),
    _code(
        "E0904",
        "the compiled module cannot be loaded",
        "It was compiled for another kind of processor or by another compiler. `netloom clean` removes it, and "
        "`--portable` avoids instructions of one processor.",
    ),
    _code(
        "E0905",
        "out of memory",
        "The arrays of the model do not fit into memory, or what a run writes does not fit on the disk: told before "
        "anything is made where that is known, with the largest parts. `netloom show` lists the bill.",
    ),
    _code(
        "E0906",
        "a record buffer was full",
        "More was recorded between two drains than the buffer can hold. Record fewer members or drain more often.",
    ),
    _code(
        "E0907",
        "a target that does not exist or cannot be used here",
        "`netloom targets` lists the targets and what each of them lacks on this machine.",
    ),
    _code(
        "E0908",
        "a value is not finite",
        "A state variable or a weight has become infinite or undefined (NaN). The time step or the learning rate "
        "may be too large, or an equation divides by zero.",
    ),
    _code(
        "E0909",
        "a checkpoint that cannot be used",
        "There is none, it cannot be read, or it was written by a run of another model, other settings or another "
        "precision.",
    ),
    _code(
        "E0910",
        "there are no samples to train on",
        "`split` keeps all samples of the data file for validation, or the file holds none; or samples cannot be read "
        "when they are due: an image is broken, or a file has been changed or removed since the run began.",
    ),
    _code(
        "E0911",
        "a file or folder is in the way",
        "A build folder is only replaced when `netloom build` made it; run directories and models are never written "
        "over.",
    ),
    _code(
        "E0912",
        "an option that does not fit the model or the target",
        "`--device` and `--arch` are for GPUs, `--portable` is for the CPU. `--duration` is a time with a unit, a "
        "whole number of steps, for models with `simulate`; `--epochs` is a number for models with `train`.",
    ),
    _code(
        "E0913",
        "a file cannot be read or written",
        "The operating system refused it: the disk may be full, or permissions do not allow it.",
    ),
    _code(
        "E0914",
        "a model that expects nothing is tested",
        "`netloom test` checks what stands under `expect`.",
        "simulate: {dt: 0.1 ms, duration: 1 s}",
        "expect:\n  - rate: {of: exc, between: [3 Hz, 12 Hz]}",
    ),
    _code(
        "E0915",
        "a code that does not exist",
        "`netloom explain` takes the code of a message, such as E0101, or a model file.",
    ),
    _code(
        "E0916",
        "weights that do not fit the network",
        "A file of weights (safetensors) has an array for each weight of the network, with its name and shape, and no "
        "others: `conv1.weight`, `conv1.bias`, `norm.running_mean`. `netloom show MODEL` lists layers and shapes; a "
        "run writes its own into weights.safetensors.",
        "weights: a file that has `conv1.weight` only",
        "weights: a file that has `conv1.weight` and `conv1.bias`",
    ),
    _code(
        "E0917",
        "data that do not fit the network",
        "`netloom predict` and `netloom evaluate` read an array for each input of the network: the arrays or columns "
        "that the training read, or those with the names of the inputs; of a file that holds one array this one. The "
        "first axis counts samples, the others are the input's shape. Whole numbers lie within the rows of the "
        "embedding, the places of the one_hot layer or the classes of the loss that reads them.",
    ),
    _code(
        "E0918",
        "a network that cannot be exchanged",
        "An ONNX file has an operator, or an operator has a form, that no layer of the language expresses, or a layer "
        "has no ONNX operator. The message names it and its node.",
    ),
    _code(
        "E0919",
        "a package for an exchange format is missing, or its file is broken",
        "ONNX files are read and written with the package `onnx`: `pip install 'netloom[onnx]'`.",
    ),
    _code(
        "E0921",
        "no CUDA compiler",
        "The CUDA target needs NVRTC, from the extra `cuda` or a CUDA toolkit, or `nvcc`. No GPU is needed to compile. "
        "`netloom doctor` shows what is found.",
    ),
    _code(
        "E0922",
        "an architecture that cannot be used",
        "Code is compiled for one architecture of GPUs, such as sm_90; it runs on that one and, compiled again by the "
        "driver, on later ones. The compiler or the device does not know the one that was asked for.",
    ),
    _code(
        "E0923",
        "no CUDA device",
        "There is no NVIDIA driver, it does not start, or there is no device of that number. `netloom doctor` lists "
        "the devices; `--target cpu` needs none.",
    ),
    _code(
        "E0924",
        "the device failed",
        "A kernel has stopped with a fault, or a call of the driver has failed. With `--verify`, every kernel is "
        "waited for, so that the message names the one that failed.",
    ),
    _code(
        "E0925",
        "a lock file that cannot be read",
        "Beside a model, `MODEL.lock` holds the strategies that `netloom tune` has measured. It was changed by hand, "
        "or by another version. Remove it and tune again; `--no-lock` leaves it out.",
    ),
    _code(
        "E0926",
        "a number in the samples is not finite",
        "A training or an evaluation reads samples that hold NaN or an infinity, or a number that is too large for the "
        "precision; rows and columns count from 0. Leave such samples out or replace the number. Where only losses "
        "with a `mask` read an input, such as a target, what the mask leaves out may be NaN, and so may what "
        "only formulas read that ask `isnan` of it. An `offset` of attention may be -inf.",
        "loss: {mean_squared_error: {prediction: out, target: y}}   # y holds NaN where nothing was measured",
        "loss: {mean_squared_error: {prediction: out, target: y, mask: measured}}",
    ),
    _code(
        "E0927",
        "a file that is damaged",
        "Checkpoints and weights that a run has written carry a digest (SHA-256), and this file does not have the "
        "contents that it had: a disk or a transfer has changed it, or it was edited. Files of other programs have "
        "none and are not checked.",
    ),
    _code(
        "E0930",
        "something cannot be written",
        "The disk is full, a quota or a limit on the size of files is reached, or the folder may not be written. The "
        "message says what was being written, how much it needs and how much is free. A file is complete or absent: "
        "what was there before is as it was. A run keeps what it has recorded, and its run.json says `failed`.",
    ),
    _code(
        "E0935",
        "a simulation from Python was asked for something it cannot do",
        "`Model.simulation` gives a simulation that is run piece by piece: its populations, projections and variables "
        "are those of the model, values that are written have the shape of those that are read, and `set` changes "
        "values of parameters, not sizes or connections, which are drawn once. The message says what does not fit.",
    ),
    _code(
        "E0938",
        "the package for the language server is missing",
        "`netloom lsp` speaks to editors with the package `pygls`: `pip install 'netloom[lsp]'`.",
    ),
    _code(
        "E0939",
        "a package for results is missing",
        "`to_pandas`, `to_xarray` and `plot` of a result need the package that their names say: `pip install "
        "'netloom[pandas]'`, `[xarray]` or `[plot]`.",
    ),
    _code(
        "E0940",
        "a folder that another process works in",
        "Two sweeps in one folder would run the same trials and write the same table. The lock goes with its process, "
        "however that ends.",
    ),
    _code(
        "E0941",
        "a package for sweeps is missing",
        "A `search` needs the package `optuna`, trials on a cluster need `dask` and `dask-jobqueue`: "
        "`pip install 'netloom[sweep]'`.",
    ),
    _code(
        "E0942",
        "a cluster that cannot be used",
        "There is no scheduler at the address, or no job can be started: dask-jobqueue reads the queue, the cores and "
        "the memory of a job from its configuration, `~/.config/dask/jobqueue.yaml`.",
    ),
    _code(
        "E0943",
        "the package for TensorBoard is missing",
        "`netloom run --tensorboard` writes event files with the package `tensorboardX`: "
        "`pip install 'netloom[tensorboard]'`. TensorBoard itself, which shows them, may be installed elsewhere.",
    ),
    _code(
        "E0946",
        "a strategy of another package that cannot be used",
        "A package offers strategies of contractions by the entry point `netloom.strategies`: objects of the class "
        "`compiler.strategies.strategy.Strategy`, each with its target and the text of its template. The message says "
        "what is wrong with this one.",
    ),
    _code(
        "E0947",
        "no OpenCL device",
        "The target opencl needs the package PyOpenCL and a driver with a device: `pip install 'netloom[opencl]'` "
        "brings both (PoCL is a device on the CPU). `netloom doctor` lists the devices by number; `--target cpu` needs "
        "none.",
    ),
    _code(
        "E0948",
        "a device without what the model needs",
        "Models in float64, and some kernels of others, need devices with float64 (cl_khr_fp64); sums that are the "
        "same in every order need atomic additions of 64 bits (cl_khr_int64_base_atomics); under `order: bitwise`, "
        "division and square roots must be rounded correctly. `netloom doctor` shows what each OpenCL device lacks.",
    ),
    _code(
        "E0949",
        "the OpenCL device failed",
        "A kernel could not be launched or has stopped with a fault. With `--verify`, every kernel is waited for, so "
        "that the message names the one that failed.",
    ),
    _code(
        "E0950",
        "an OpenCL device whose compiler does not work",
        "The driver of the device refuses even a kernel of two lines; the message has what its compiler said. PoCL 3.0 "
        "does so on processors that are newer than it: `unknown target CPU`. `pip install 'netloom[opencl-intel]'` "
        "brings Intel's runtime for x86-64 processors, AMD's too (280 MB to download, 850 MB on disk; the licence is "
        "Intel's). Where there are several devices, those that work have the first numbers.",
    ),
)

_WARNINGS: Final = (
    _code(
        "W0001",
        "the file begins with a byte order mark",
        "The mark is skipped. UTF-8 needs none; some editors write it, and some tools stumble over it.",
    ),
    _code(
        "W0002",
        "a parameter that nothing reads",
        "It can be set and has no effect. Often its name is misspelt where it should be used.",
    ),
    _code(
        "W0003",
        "a layer or an input of the network that nothing reads",
        "It takes part in no output that the loss sees, so that it is not trained. Often the layer after it names "
        "another one in `inputs`.",
    ),
    _code(
        "W0004",
        "an entry of a lock file that does not hold any more",
        "`netloom tune` has measured a contraction that now has another shape, precision or order, or that the model "
        "does not have any more. The entry is not used: the strategy is chosen by rules, as without a lock file.",
    ),
    _code(
        "W0005",
        "a model that takes much of what the machine has",
        "Its arrays take more than half of the memory (of this machine, its control group, `ulimit -v`, or the GPU), "
        "or a run writes more than half of what is free on the disk. Numbers of synapses that are drawn count as they "
        "are expected, spikes at 10 Hz. `build` and `run` refuse (E0905) what surely does not fit.",
    ),
    _code(
        "W0006",
        "a layer with weights that gradients do not reach",
        "It acts on the loss through a population of neurons alone, where gradients stop: its weights stay as they "
        "begin. Layers that read the population are trained.",
    ),
    _code(
        "W0007",
        "channels of a population that has none",
        "A population with a `size` is a line: the channel of each of its neurons is 0, so that a condition such as "
        "`c_i == c_j` holds for all of them. Channels, which are pools where there are any, come with a `shape`.",
    ),
)

CATALOGUE: Final[Mapping[str, CodeInfo]] = MappingProxyType(
    dict(
        (
            *_FILE_AND_YAML,
            *_STRUCTURE,
            *_REFERENCES,
            *_EXPRESSIONS,
            *_UNITS,
            *_SHAPES,
            *_SPIKING,
            *_DATA,
            *_UNSUPPORTED,
            *_TOOLS,
            *_WARNINGS,
        )
    )
)
"""Every code, in the order of the groups."""


def explain(code: str) -> str | None:
    """The catalogue's text about `code`, ready to be shown; None when there is no such code."""
    info = CATALOGUE.get(code.upper())
    if info is None:
        return None
    parts = [f"{code.upper()}: {info.title}", info.explanation]
    for label, example in (("Wrong:", info.example_bad), ("Right:", info.example_good)):
        if example:
            parts.append(f"{label}\n\n" + "\n".join(f"    {line}" for line in example.split("\n")))
    return "\n\n".join(parts) + "\n"
