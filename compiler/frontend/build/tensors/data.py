"""Training data: the arrays that feed the inputs, and the validation split.

Assumes: the network has been built (possibly with errors).
Guarantees: arrays have the shapes and types of the network's inputs, by their headers; both parts of a split are
nonempty.
Does not: read samples (labels are read by loss.py).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import compiler.ir.level0.model as l0
from compiler.core.diagnostics import declared_at
from compiler.core.source import Span
from compiler.files.array_files import Header
from compiler.files.data_source import place_of
from compiler.files.sample_help import sample_help
from compiler.frontend.build.shared.data_files import arrays_of, locate, pick
from compiler.frontend.build.shared.readers import Reader, real
from compiler.frontend.build.shared.values import Context, entries_of, items_of, mapping
from compiler.frontend.build.tensors.network import Built
from compiler.frontend.schema.wording import suggested
from compiler.frontend.yaml import tree
from compiler.frontend.yaml.tree import Node, Scalar
from compiler.layers.shared.kind import shown

Found = tuple[str, Header, Span]
"""The key of an array in `Data.arrays`, its header (samples are axis 0), its span."""


def kept_of(data: l0.Data, samples: int) -> int:
    """The number of validation samples."""
    return data.kept.count(samples)


def build_data(r: Reader, built: Built, at: Span) -> tuple[l0.Data | None, dict[str, Found]]:
    """The data of a block, and the arrays by input; (None, {}) after an error that makes further checks impossible."""
    c = r.c
    if r.node is None:
        return _missing(built, at)
    file, folder, inputs = r.get("file"), r.get("folder"), mapping(r.get("inputs"))
    scales = _scales(r, built)
    if file is not None and folder is not None:
        c.sink.error("E0108", "`file` and `folder` exclude each other", folder.span)
        return None, {}
    file = folder if file is None else file
    if inputs is None or not (file is None or isinstance(file, Scalar)):
        return None, {}
    reader = _Reader(c, file, {}, "file" if folder is None else "folder")
    if file is not None and "data" not in c.unread and reader.headers(file) is None:
        return None, {}
    arrays: dict[str, Found] = {}
    for name, node in _declared(inputs, built, c).items():
        found = reader.source(name, node) if "data" not in c.unread else reader.unread(name, node, built)
        if found is not None and _fits(built.inputs[name], built.shapes[name], found[2], found[0], found[1], c):
            arrays[name] = found
    _same_length(arrays, c)
    listed = tuple((n, a[0], scales.get(n, 1.0)) for n, a in arrays.items())
    in_order = {n: i for i, n in enumerate(built.inputs)}
    ordered = tuple(sorted(listed, key=lambda item: in_order[item[0]]))
    path = str(reader.path) if reader.path is not None else ""
    files, columns = tuple(reader.files), tuple(reader.columns)
    data = l0.Data(path, ordered, 0.0, r.flag("shuffle"), files, columns, _memory(r.word("memory")), r.span)
    samples = min((h.shape[0] for _, h, _ in arrays.values()), default=0)
    if arrays and not samples:
        array, _, at = next(found for found in arrays.values() if not found[1].shape[0])
        c.sink.error("E0703", f"`{array}` holds no samples", at)
        return None, {}
    return replace(data, validation=_split(r.block("split"), built, data, samples)), arrays


def _missing(built: Built, at: Span) -> tuple[l0.Data, dict[str, Found]]:
    """A substitute for samples that whoever runs the model gives: an array for each input, by its name, with enough
    samples for all checks of their number."""
    found: dict[str, Found] = {}
    for name, declared in built.inputs.items():
        if name in built.computed:
            continue
        found[name] = _substitute(name, built, declared.span)
    files = tuple((n, "", n) for n in found)
    return l0.Data("", tuple((n, n, 1.0) for n in found), 0.0, files=files, span=at), found


def _substitute(name: str, built: Built, at: Span) -> Found:
    """An array for an input, with enough samples for all checks of their number."""
    dtype = built.inputs[name].dtype
    return name, Header((1 << 20, *(built.shapes[name] or ())), "i" if dtype == "int32" else "f", dtype), at


def _memory(text: str) -> int:
    """Bytes of an amount such as "500 MB"."""
    amount, unit = text.split()
    return round(float(amount) * {"MB": 10**6, "GB": 10**9}[unit])


class _Reader:
    """Headers of the files of the block, each read once, and the per-input sources."""

    def __init__(
        self, c: Context, file: Scalar | None, known: dict[str, tuple[Path, dict[str, Header]]], key: str
    ) -> None:
        self.c, self.file, self.known, self.key = c, file, known, key
        self.path: Path | None = None
        self.files: list[tuple[str, str, str]] = []
        self.columns: list[tuple[str, tuple[str, ...]]] = []

    def headers(self, file: Scalar) -> tuple[Path, dict[str, Header]] | None:
        """Path and headers of a file; None after an error."""
        if file.text not in self.known:
            path = locate(file, self.c, folder=file is self.file and self.key == "folder")
            found = None if path is None else arrays_of(path, file, self.c)
            if path is None or found is None:
                return None
            self.known[file.text] = (path, found)
        if file is self.file:
            self.path = self.known[file.text][0]
        return self.known[file.text]

    def unread(self, name: str, node: Node, built: Built) -> Found:
        """A substitute for an unread file: an array `name` of a separate file, with enough samples for all checks of
        their number."""
        settings = mapping(node)
        array = node if settings is None else settings.get("array")
        self.files.append((name, "", array.text if isinstance(array, Scalar) else ""))
        columns = items_of(settings.get("columns")) if settings is not None else ()
        if columns:
            self.columns.append((name, tuple(n.text for n in columns if isinstance(n, Scalar))))
        return _substitute(name, built, node.span)

    def source(self, name: str, node: Node) -> Found | None:
        """The source array of an input."""
        c, settings = self.c, mapping(node)
        own = settings.get("file") if settings is not None else None
        array = settings.get("array") if settings is not None else node
        if own is not None and self.file is not None:
            message = f"`{name}` names a file of its own beside the `{self.key}` of all inputs"
            c.sink.error("E0108", message, own.span, "leave one of the two out")
            return None
        file = own if isinstance(own, Scalar) else self.file
        if file is None:
            help = f"write `file: ...` into `data`, or `{name}: {{file: ...}}`"
            c.sink.error("E0103", f"the data say no file for `{name}`", node.span, help)
            return None
        read = self.headers(file)
        if read is None:
            return None
        path, found = read
        columns = settings.get("columns") if settings is not None else None
        if columns is not None:
            if array is not None:
                c.sink.error("E0108", "`array` and `columns` exclude each other", columns.span)
                return None
            return self._together(name, [n for n in items_of(columns) if isinstance(n, Scalar)], file, path, found, own)
        at = array.span if array is not None else file.span
        text = array.text if isinstance(array, Scalar) else self._only(found, file)
        header = None if text is None else pick(found, text, at, file, c)
        if text is None or header is None:
            return None
        if own is not None:
            self.files.append((name, str(path), text))
        return (name if own is not None else text), header, at

    def _only(self, found: dict[str, Header], file: Scalar) -> str | None:
        """The name of a file's only array."""
        if len(found) == 1:
            return next(iter(found))
        known = ", ".join(f"`{n}`" for n in list(found)[:12]) or "none"
        message, help = f"say which array of `{file.text}` is meant", f"write `array: ...`; it has {known}"
        self.c.sink.error("E0702", message, file.span, help)
        return None

    def _together(
        self, name: str, names: list[Scalar], file: Scalar, path: Path, found: dict[str, Header], own: Node | None
    ) -> Found | None:
        """Columns side by side."""
        headers = [pick(found, n.text, n.span, file, self.c) for n in names]
        known = [h for h in headers if h is not None]
        if len(known) < len(headers) or not known:
            return None
        for node, header in zip(names, known, strict=True):
            if len(header.shape) != 1 or header.shape != known[0].shape:
                message = f"`{node.text}` has the shape {shown(header.shape)}; columns are lists of one length"
                self.c.sink.error("E0703", message, node.span)
                return None
        key = name if own is not None else ",".join(n.text for n in names)
        if own is not None:
            self.files.append((name, str(path), ""))
        if key not in dict(self.columns):
            self.columns.append((key, tuple(n.text for n in names)))
        bad = next((h for h in known if h.kind not in "fiub"), None)
        kind = bad or next((h for h in known if h.kind == "f"), known[0])
        return key, Header((*known[0].shape, len(known)), kind.kind, kind.dtype), names[0].span


def _declared(inputs: tree.Mapping, built: Built, c: Context) -> dict[str, Node]:
    """The source of each input of the network that the data have, with an error for those without."""
    out: dict[str, Node] = {}
    misspelt = any(e.name not in built.inputs for e in inputs.entries)
    for entry in inputs.entries:
        if entry.name not in built.inputs:
            help = suggested(entry.name, "the inputs are", built.inputs)
            message = f"the network has no input `{entry.name}`"
            c.sink.error("E0201", message, entry.key.span, help)
        elif entry.name in built.computed:
            message = f"`{entry.name}` is what a population does in a trial, and not read from data"
            c.sink.error("E0802", message, entry.key.span, "leave it out here")
        elif isinstance(entry.value, Scalar | tree.Mapping):
            out[entry.name] = entry.value
    for name, declared in built.inputs.items():
        if name not in inputs and not misspelt and name not in built.computed:  # else it may be the intended one
            related = declared_at(declared.span, "the input")
            message = f"`data` does not say which array the input `{name}` is read from"
            c.sink.error("E0103", message, inputs.span, f"write `inputs: {{{name}: ...}}`", related)
    return out


def _scales(r: Reader, built: Built) -> dict[str, float]:
    out: dict[str, float] = {}
    c = r.c
    for entry in entries_of(r.get("scale")):
        declared = built.inputs.get(entry.name)
        if declared is None:
            help = suggested(entry.name, "the inputs are", built.inputs)
            c.sink.error("E0201", f"the network has no input `{entry.name}`", entry.key.span, help)
            continue
        value = real(r.kind.by_name["scale"].kind, entry.value, c, f"the scale of `{entry.name}`")
        if declared.dtype != "real":
            message = f"`{entry.name}` holds whole numbers, which are not scaled"
            c.sink.error("E0802", message, entry.key.span)
        elif value is not None:
            out[entry.name] = value
    return out


def _split(r: Reader, built: Built, data: l0.Data, samples: int) -> float | l0.Kept:
    """The validation split, with an error where one of the parts would be empty."""
    if r.node is None:
        return 0.0
    c, parts, stratify = r.c, r.get("folds"), r.get("stratify")
    if r.get("validation") is not None and parts is not None:
        c.sink.error("E0108", "`validation` and `folds` exclude each other", parts.span)
        return 0.0
    fraction = r.real("validation") or 0.0
    folds = r.integer("folds", high=max(samples, 2)) or 0
    fold = r.integer("fold", high=folds - 1) or 0 if folds else 0
    strata = None if stratify is None else _strata(stratify, built, data, c)
    if not folds and strata is None:
        kept: float | l0.Kept = fraction
    else:
        kept = l0.Kept(fraction, folds, fold, strata)
    count = kept.count(samples) if isinstance(kept, l0.Kept) else round(samples * kept)
    if samples and fraction > 0 and count in (0, samples):
        what = "no sample is left for training" if count else "it is less than one sample"
        c.sink.error("E0106", f"`validation` of {samples:,} samples: {what}", r.span)
    if stratify is not None and not folds and not fraction:
        c.sink.error("E0103", "`stratify` says how samples are kept, but none are", stratify.span,
                     "write `validation: 0.2` or `folds: 5` beside it")  # fmt: skip
    return kept


def _strata(node: Node, built: Built, data: l0.Data, c: Context) -> tuple[str, str] | None:
    """The array of the input given by `stratify`."""
    if not isinstance(node, Scalar):
        return None
    declared = built.inputs.get(node.text)
    whole_ = [n for n, i in built.inputs.items() if i.dtype != "real" and not i.shape]
    if declared is None:
        help = suggested(node.text, "inputs of one whole number are", whole_)
        c.sink.error("E0201", f"the network has no input `{node.text}`", node.span, help)
        return None
    if node.text not in whole_:
        message = f"`{node.text}` is no class: `stratify` needs an input of one whole number"
        c.sink.error("E0802", message, node.span, None, declared_at(declared.span, "it"))
        return None
    key = next((a for n, a, _ in data.arrays if n == node.text), None)
    return None if key is None else place_of(data, key)


def _fits(
    declared: l0.TensorInput, shape: tuple[int, ...] | None, at: Span, text: str, header: Header, c: Context
) -> bool:
    """Whether an array of the file holds samples of an input."""
    related = declared_at(declared.span, "the input")
    name = declared.name
    whole = declared.dtype == "int32"
    help = None if shape is None else sample_help(name, shape, whole, header.shape, header.kind, fixed=False)
    if header.kind not in "fiub":
        c.sink.error("E0703", f"the array `{text}` holds {header.held}, not numbers", at, help, related)
        return False
    if whole and header.kind == "f":
        message = f"the input `{name}` needs whole numbers, but the array `{text}` holds {header.dtype}"
        c.sink.error("E0703", message, at, help, related)
        return False
    if not header.shape:
        c.sink.error("E0703", f"`{text}` is a single number; its first axis must count samples", at)
        return False
    if shape is not None and header.shape[1:] != shape:
        has = shown(header.shape[1:])
        message = f"samples of the input `{name}` are of shape {shown(shape)}, those of the array `{text}` of {has}"
        c.sink.error("E0703", message, at, help, related)
        return False
    return True


def _same_length(arrays: dict[str, tuple[str, Header, Span]], c: Context) -> None:
    lengths = [(n, h.shape[0], at) for n, (_, h, at) in arrays.items()]
    for name, length, at in lengths[1:]:
        first, other, _ = lengths[0]
        if length != other:
            message = f"`{first}` has {other:,} samples, but `{name}` has {length:,}"
            c.sink.error("E0703", message, at)
            return
