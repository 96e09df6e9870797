"""Training of a network of layers: data, losses, metrics, optimizers; and user-defined functions.

Assumes: expr/keys/kinds.py, expr/keys/values.py, compiler/layers.
Guarantees: every key of these blocks, with its hover text, default and example.
Does not: define the parameters of a library optimizer (its own file does).
"""

from __future__ import annotations

import compiler.expr.keys.kinds as k
import compiler.expr.keys.values as v
from compiler.frontend.language.training.data import DATA_FILE, DATA_SOURCE, FOLDER, MEMORY, SPLIT_FIELDS
from compiler.frontend.language.training.progress import ACCUMULATE, AVERAGE, BEST, PLATEAU, STOP, WEIGHTS
from compiler.losses import LOSS, METRIC

_CLASSES = ("weights", "biases", "norms", "all")

PENALTY = k.Block(
    "penalty",
    (
        k.Field("l1", k.Value("a number", "1e-5", low=0), "The factor of the sum of sizes.", default=0),
        k.Field("l2", k.Value("a number", "1e-4", low=0), "The factor of the sum of squares.", default=0),
        k.Field(
            "of",
            k.OneOf((
                k.Reference("layer or class of weights", "weights", v.TEMPLATE_KEY, _CLASSES),
                k.ListOf(k.Reference("layer or class of weights", "weights", v.TEMPLATE_KEY), low=1, example="[a, b]"),
            )),
            "Layers, with all of their arrays, biases too, or classes of weights: `weights`, `biases`, `norms`, `all`.",
            default="weights"),
    ),
    doc="What large weights add to the loss.",
    at_least_one=("l1", "l2"),
    example="{l2: 1e-4}",
)  # fmt: skip

_POSITIVE_NUMBER = k.Value("a positive number", "1", low=0, above=True)
_WEIGHTS = k.Reference("layer or class of weights", "biases", v.TEMPLATE_KEY, _CLASSES)
_OPTIMIZER_VALUES = v.values_map("optimizer parameter", v.NUMBER, "{learning_rate: 1e-3}")


def _known_optimizer(name: str, doc: str, rate: str = "1e-3") -> k.Alternative:
    return k.Alternative(name, _OPTIMIZER_VALUES, doc, example=f"{{{name}: {{learning_rate: {rate}}}}}")


OPTIMIZER_CHOICE = k.OneKey(
    "optimizer",
    (
        _known_optimizer("sgd", "Stochastic gradient descent.", "0.1"),
        _known_optimizer("momentum", "Gradient descent with momentum.", "0.1"),
        _known_optimizer("nesterov", "Gradient descent with Nesterov's momentum (Sutskever et al. 2013).", "0.1"),
        _known_optimizer("adam", "Adam (Kingma & Ba 2015)."),
        _known_optimizer("adamw", "Adam with decoupled weight decay `decay` (Loshchilov & Hutter 2019)."),
        _known_optimizer("amsgrad", "Adam whose second moment never falls (Reddi, Kale & Kumar 2018)."),
        _known_optimizer("nadam", "Adam with Nesterov's momentum (Dozat 2016)."),
        _known_optimizer("radam", "Adam that begins as momentum, until its second moment is known (Liu et al. 2020)."),
        _known_optimizer("adamax", "Adam with the largest gradient in place of the second moment (Kingma & Ba 2015)."),
        _known_optimizer("rmsprop", "RMSprop (Tieleman & Hinton 2012)."),
        _known_optimizer("adagrad", "AdaGrad (Duchi, Hazan & Singer 2011).", "0.01"),
        _known_optimizer("adadelta", "Adadelta (Zeiler 2012).", "1"),
        _known_optimizer("lion", "Lion (Chen et al. 2023): steps of one size, with the sign of the momentum.", "1e-4"),
        _known_optimizer("lamb", "LAMB (You et al. 2020): Adam with steps as large as the weights are."),
    ),
    title="optimizer_choice",
    doc="An optimizer of this file's `optimizers` or of the library, with its parameters. A parameter is a number or a "
    "schedule: an expression over `step` and `epoch` (from 1), `steps` and `epochs` (of the whole training), which may "
    "call `warmup(t, length)`, `step_decay(t, every, factor)`, `cosine_decay(t, length)`, "
    "`cosine_restarts(t, length)`, `warmup_cosine(t, warmup, length)`, `warmup_linear(t, warmup, length)` and "
    "`one_cycle(t, length)`: `1e-3 * warmup_cosine(step, 100, steps)`.",
    own=_OPTIMIZER_VALUES,
)

OPTIMIZER = k.Block(
    "optimizer",
    (
        v.USE,
        v.FOR,
        v.DESCRIPTION,
        k.Field(
            "params",
            k.MapOf("parameter", k.OneOf((v.NUMBER, v.PARAMETER)), example="{learning_rate: 1e-3, beta: 0.9}"),
            "Parameters with their default values; `train: {optimizer: ...}` may give others.",
            example="params: {learning_rate: 1e-3, beta1: 0.9}",
        ),
        k.Field(
            "state",
            v.values_map("state variable", v.NUMBER, "{m: 0}"),
            "Variables with their initial values, one of each per trained value.",
            example="state: {m: 0, v: 0}",
        ),
        k.required(
            "update",
            k.ListOf(
                k.Statement("param = param - learning_rate * gradient"),
                low=1,
                example="[param = param - learning_rate * gradient]",
            ),
            "Assignments that run once per step for every trained value, in order, each reading "
            "the newest values. `param`, `gradient`, `step` and `epoch` (from 1), `steps` and `epochs` (of the whole "
            "training) are given; other names on the left are temporaries. `norm(x)`, alone on the right, is the root "
            "of the sum of x ** 2 over the weight: `size = norm(param)`.",
        ),
    ),
    doc="An optimizer, written out.",
    elsewhere=k.instead("`params`: parameters", "`update: [...]`: step rule", "`state`: variables"),
    open_with=("use",),
    example="{params: {learning_rate: 0.1}, update: [...]}",
)

_DATA = k.Block(
    "data",
    (
        k.Field(
            "file",
            DATA_FILE,
            "The file with the samples, relative to the model file: `.npz`, `.h5`, `.csv` with a line of names, "
            "`.parquet`. The first axis of each array counts samples. Without it, every input names a file of its own.",
        ),
        FOLDER,
        k.required(
            "inputs",
            k.MapOf(
                "array",
                k.OneOf((k.Text("the name of an array", "images"), DATA_SOURCE)),
                key_example="image",
                low=1,
                example="{image: images}",
            ),
            "For each input of the network, the array of the file that it is read from; `{columns: [a, b]}` puts "
            "columns together; `{file: train-images-idx3-ubyte.gz}` is a file of its own.",
            example="inputs: {image: images, label: labels}",
        ),
        k.Field(
            "scale",
            k.MapOf("factor", v.NUMBER, key_example="image", example="{image: 1 / 255}"),
            "Factors that inputs are multiplied by as they are read. To give them the mean 0 and the variance 1, begin "
            "with a layer such as `map: {z: (image - 0.13) / 0.31}`, which export and predict keep.",
        ),
        k.Field(
            "split",
            k.Block(
                "split",
                (
                    k.Field("validation", v.PART, "The part of the samples that is kept for validation."),
                    k.Field(
                        "test",
                        v.FRACTION,
                        "The part that is kept for a final test.",
                        example="test: 0.1",
                        supported=False,
                    ),
                    *SPLIT_FIELDS,
                ),
                needs=(("fold", ("folds",)),),
                elsewhere={"k": "`folds`", "train": "nothing: it is what the others leave", "val": "`validation`"},
                example="{validation: 0.2}",
            ),
            "Which part of the samples is not trained on; drawn with the training's `seed`.",
        ),
        k.switch(
            "shuffle",
            "Whether samples are put into a new order in each epoch: a permutation of all of them, drawn from the "
            "training's `seed` and the number of the epoch.",
            True,
        ),
        MEMORY,
    ),
    doc="Where the samples come from.",
    title="train_data",
    elsewhere=k.instead(
        "`file`: path",
        "`folder`: images directory",
        "`inputs`: arrays",
        "`split: {validation: ...}`: validation",
        "`train: {batch: ...}`: batch",
    ),
    example="{file: data/digits.npz, inputs: {image: images, label: labels}}",
)

_SCHEDULE = '`optimizer: {adam: {learning_rate: "1e-3 * cosine_decay(step, steps)"}}`'

TRAIN = k.Block(
    "training",
    (
        k.Field(
            "data",
            _DATA,
            "The samples. Without it, a run is given some: `--data FILE`, from Python `fit({...})`.",
            example="data: {file: data/digits.npz, inputs: {image: images}}",
        ),
        k.required(
            "loss",
            LOSS,
            "What is made small.",
            example="loss: {softmax_cross_entropy: {logits: logits, target: label}}",
        ),
        k.Field("metrics", k.ListOf(METRIC, example="[accuracy]"), "What is measured at each epoch."),
        k.required(
            "optimizer",
            OPTIMIZER_CHOICE,
            "How weights follow their gradients.",
            example="optimizer: {adam: {learning_rate: 1e-3}}",
        ),
        k.Field(
            "penalty",
            k.OneOf((PENALTY, k.ListOf(PENALTY, low=1, example="[{l2: 1e-4}, {l1: 1e-5, of: logits}]"))),
            "What large weights add to the loss, and so to `loss` among the metrics.",
        ),
        k.Field(
            "clip",
            k.Block(
                "limit",
                (
                    k.Field(
                        "value",
                        _POSITIVE_NUMBER,
                        "Each element of a gradient is held between minus this and this.",
                        example="value: 0.5",
                    ),
                    k.Field(
                        "norm",
                        _POSITIVE_NUMBER,
                        "All gradients are scaled down together where the root of the sum of their squares is larger.",
                    ),
                ),
                title="clip",
                one_of=(("value", "norm"),),
                elsewhere={"global_norm": "`norm`", "max_norm": "`norm`", "clipvalue": "`value`"},
                example="{norm: 1}",
            ),
            "Limits gradients before the optimizer sees them.",
        ),
        k.Field(
            "groups",
            k.ListOf(
                k.Block(
                    "group of weights",
                    (
                        k.required(
                            "of",
                            k.OneOf((_WEIGHTS, k.ListOf(_WEIGHTS, low=1, example="[biases, norms]"))),
                            "Layers, with all of their arrays, or classes: `weights`, `biases`, `norms` (scale and "
                            "shift of normalisations), `all`.",
                            example="of: [biases, norms]",
                        ),
                        k.Field(
                            "set",
                            v.values_map("optimizer parameter", v.NUMBER, "{decay: 0}"),
                            "Parameters of the optimizer that are different here; those of weights whose optimizer has "
                            "none of the name stay as they are.",
                        ),
                        k.Field(
                            "optimizer",
                            OPTIMIZER_CHOICE,
                            "Another optimizer for these weights; its parameters are those that later groups `set`.",
                            example="optimizer: {sgd: {learning_rate: 0.01}}",
                        ),
                        k.switch("frozen", "Whether these weights stay as they are."),
                        k.Field(
                            "every",
                            v.POSITIVE,
                            "These weights change in every so many-th step only, by the gradient of that step; `step` "
                            "and `steps` in their optimizer count their own changes.",
                            example="every: 5",
                        ),
                        k.Field(
                            "first",
                            v.POSITIVE,
                            "The first step in which they change, from 1 to `every`; without it, `every`. With "
                            "`{of: judge, every: 2, first: 1}` and `{of: maker, every: 2}` the two take turns.",
                            example="first: 1",
                        ),
                    ),
                    title="weight_group",
                    at_least_one=("set", "optimizer", "frozen", "every"),
                    needs=(("first", ("every",)),),
                    elsewhere={
                        "layers": "`of`",
                        "trainable": "`frozen`",
                        "params": "`set`",
                        "frequency": "`every`",
                        "offset": "`first`",
                    },
                    example="{of: biases, set: {decay: 0}}",
                ),
                low=1,
                example="[{of: biases, set: {decay: 0}}]",
            ),
            "Weights that are trained in another way, in order; later groups win.",
            example="groups: [{of: [biases, norms], set: {decay: 0}}, {of: conv1, frozen: true}]",
        ),
        k.Field(
            "batch",
            v.POSITIVE,
            "Samples per step; the last batch of an epoch may be shorter.",
            default=32,
            example="batch: 64",
        ),
        ACCUMULATE,
        AVERAGE,
        k.required("epochs", v.POSITIVE, "How often each sample is seen.", example="epochs: 20"),
        STOP,
        PLATEAU,
        WEIGHTS,
        k.Field(
            "seed", v.COUNT, "The seed of initial weights, split, order and dropout.", default=0, example="seed: 3"
        ),
        k.Field(
            "checkpoint",
            k.Block(
                "checkpoint",
                (k.Field("every", v.POSITIVE, "Epochs between checkpoints.", default=1, example="every: 5"), BEST),
                example="{every: 5}",
            ),
            "Writes checkpoints that a run can be resumed from, bit for bit.",
        ),
    ),
    doc="How the network is trained.",
    title="train",
    elsewhere=k.instead(
        "`batch`: batch_size",
        "`optimizer: {adam: {learning_rate: ...}}`: lr learning_rate",
        "`data`: dataset",
        "`loss`: criterion objective",
        "`metrics`: metric",
        "`epochs`: epoch iterations steps max_steps",
        "`seed`: random_seed",
        "`stop`: early_stopping",
        "`accumulate`: gradient_accumulation",
        "`average`: ema ema_decay",
        "`stop: {patience: ...}`: patience",
        "`data: {split: {validation: ...}}`: validation_split validation",
        "`data: {shuffle: ...}`: shuffle",
        "nothing: `--target cuda` on the command line chooses it: device",
        "`penalty: {l2: ...}`: weight_decay",
        "`clip: {norm: ...}`: grad_clip clip_norm clipnorm max_grad_norm gradient_clip_val",
        "`groups: [{of: ..., frozen: true}]`: freeze frozen trainable",
        "`stop` and `checkpoint`: callbacks",
        f"{_SCHEDULE}: scheduler lr_scheduler lr_schedule learning_rate_schedule",
    ),
    example="{data: {...}, loss: {...}, optimizer: {...}, epochs: 20}",
)

OPTIMIZERS = k.MapOf("optimizer", OPTIMIZER, v.TEMPLATE_KEY, "my_optimizer")
FUNCTIONS = k.MapOf(
    "function",
    k.Expression("x / (1 + exp(-x))"),
    key=r"^[A-Za-z][A-Za-z0-9_]*\(\s*[A-Za-z][A-Za-z0-9_]*(?:\s*,\s*[A-Za-z][A-Za-z0-9_]*)*\s*\)$",
    key_example="swish(x)",
    example="{swish(x): x / (1 + exp(-x))}",
)
