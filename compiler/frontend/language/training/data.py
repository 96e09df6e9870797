"""Sources of samples and their splits: parts of `train: {data: ...}`.

Assumes: expr/keys/kinds.py, expr/keys/values.py.
Guarantees: every key of these blocks, with its hover text, default and example.
Does not: read files.
"""

from __future__ import annotations

from compiler.expr.keys.kinds import Block, Field, ListOf, Pattern, Reference, Text, Value
from compiler.expr.keys.values import COUNT, TEMPLATE_KEY

DATA_FILE = Reference(
    "data file", "data/digits.npz", r"^.*(\.npz|\.npy|\.csv|\.h5|\.hdf5|\.parquet|[-._]idx[0-9]?(-[a-z]+)?(\.gz)?)$"
)
"""`.npz`, `.npy`, `.csv`, `.h5`, `.parquet`, or IDX, the format of MNIST."""

DATA_SOURCE = Block(
    "source of an input",
    (
        Field(
            "file",
            DATA_FILE,
            "A file of this input alone: `.npy`, IDX (MNIST's own format: `train-images-idx3-ubyte`, `.gz` too), or "
            "any that `data: {file: ...}` may be.",
            example="file: train-images-idx3-ubyte.gz",
        ),
        Field("array", Text("the name of an array", "images"), "The array or column, where the file has several."),
        Field(
            "columns",
            ListOf(Text("the name of a column", "width"), low=1, example="[width, length]"),
            "Columns that together are a sample, in this order.",
        ),
    ),
    title="data_source",
    at_least_one=("file", "columns", "array"),
    elsewhere={"path": "`file`", "column": "`array`", "name": "`array`"},
    example="{file: train-images-idx3-ubyte.gz}",
)

FOLDER = Field(
    "folder",
    Text("the path of a folder", "data/pets"),
    "A folder of PNG or JPEG images with one sub-folder for each class, instead of `file` (extra `images`). It has the "
    "arrays `images`, of the shape [channels, height, width] with numbers of 0 to 255, and `labels`: the classes are "
    "numbered in the order of their names. All images have one size, and all are grayscale or all RGB.",
)

MEMORY = Field(
    "memory",
    Pattern("an amount of memory", r"^[0-9]{1,6}(\.[0-9]+)? (MB|GB)$", "500 MB"),
    "The most that samples may take. Those that need more (in memory, each stands there twice, in the program's type) "
    "stay in their files and are read while the network trains, a part of an epoch at a time; the results are the "
    "same, bit for bit. Files that are compressed or hold text are written once into the cache folder in a form that "
    "can be read in any order.",
    default="2 GB",
)

SPLIT_FIELDS = (
    Field(
        "folds",
        Value("a whole number from 2", "5", integer=True, low=2),
        "The number of parts for cross-validation, instead of `validation`: one of them is kept for validation. A "
        "sweep over `fold` sees every sample once.",
    ),
    Field("fold", COUNT, "Which part is kept, from 0.", default=0, example="fold: 0"),
    Field(
        "stratify",
        Reference("network input", "label", TEMPLATE_KEY),
        "An input of whole numbers (the class) that is as frequent in every part as in the whole.",
    ),
)
