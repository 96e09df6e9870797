"""`connect: {pairs: ...}`: explicit lists of connections.

Assumes: a validated block.
Guarantees: pairs of integers from 0 in the user's order; their range is checked per member.
Does not: sort.

Files: an .npz with two arrays, a .csv with two named columns, or a SONATA edges file (HDF5): the data sets
source_node_id and target_node_id of edges/<population> (Dai et al. 2020, The SONATA data format, PLoS Comput Biol).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from compiler.core.diagnostics import did_you_mean
from compiler.core.source import Span
from compiler.files.array_files import HDF5, Header, read_array
from compiler.frontend.build.shared.data_files import named_arrays, pick
from compiler.frontend.build.shared.readers import Reader, integer
from compiler.frontend.build.shared.values import Context, listed
from compiler.frontend.build.spiking.populations import Populations
from compiler.frontend.yaml import tree
from compiler.frontend.yaml.tree import Scalar


@dataclass
class Pairs:
    """Pairs (source, target), and the span of each (one span for all of a file)."""

    pairs: tuple[tuple[int, int], ...]
    places: tuple[tuple[Span, Span], ...]

    def check(self, source: str, target: str, populations: Populations, c: Context) -> None:
        """E0106 for the first index that is out of range."""
        sizes = (populations.built[source].size, populations.built[target].size)
        if not self.pairs:
            return
        table = np.array(self.pairs, np.int64)
        for side, (name, size) in enumerate(zip((source, target), sizes, strict=True)):
            outside = np.nonzero(table[:, side] >= size)[0]
            if len(outside):
                first = int(outside[0])
                at = self.places[first if len(self.places) > 1 else 0][side]
                index = int(table[first, side])
                message = f"`{name}` has no neuron {index}: it has {size:,}, counted from 0"
                c.sink.error("E0106", message, at)


def read_pairs(r: Reader) -> Pairs | None:
    """The pairs of a `pairs` rule; None after an error."""
    listed = r.get("list")
    if isinstance(listed, tree.Sequence):
        return _inline(listed, r)
    file = r.get("file")
    return _from_file(file, r) if isinstance(file, Scalar) else None


def _inline(node: tree.Sequence, r: Reader) -> Pairs | None:
    pairs: list[tuple[int, int]] = []
    places: list[tuple[Span, Span]] = []
    wrong = False
    for item in node.items:
        parts = listed(item)
        values = [integer(r.of("list"), p, r.c, "each index") for p in parts]
        if len(values) != 2 or values[0] is None or values[1] is None:
            wrong = True
            continue
        pairs.append((values[0], values[1]))
        places.append((parts[0].span, parts[1].span))
    return None if wrong else Pairs(tuple(pairs), tuple(places))


def _from_file(file: Scalar, r: Reader) -> Pairs | None:
    c = r.c
    read = named_arrays(
        file, "holds one array only", "write two arrays into an `.npz`, or two named columns into a `.csv`", c
    )
    if read is None:
        return None
    path, found = read
    group = _group(found, path.suffix in HDF5, file, r)
    if group is None:
        return None
    columns: list[npt.NDArray[np.int64]] = []
    places: list[Span] = []
    for key in ("sources", "targets"):
        node = r.get(key)
        default = f"{key[:-1]}_node_id" if path.suffix in HDF5 else key
        name = node.text if isinstance(node, Scalar) else default
        at = file.span if node is None else node.span
        column = _column(path, found, group + name, at, file, c)
        if column is None:
            return None
        columns.append(column)
        places.append(at)
    if len(columns[0]) != len(columns[1]):
        message = f"`{file.text}` has {len(columns[0]):,} sources, but {len(columns[1]):,} targets"
        c.sink.error("E0703", message, file.span)
        return None
    pairs = zip(columns[0].tolist(), columns[1].tolist(), strict=True)
    return Pairs(tuple(pairs), ((places[0], places[1]),))


def _group(found: dict[str, Header], sonata: bool, file: Scalar, r: Reader) -> str | None:
    """The common prefix of the names of the two arrays: the edge population in a SONATA file; None after an error."""
    c, node = r.c, r.get("population")
    if not sonata:
        if node is None:
            return ""
        c.sink.error("E0702", f"`{file.text}` has no populations of edges", node.span, "only SONATA files (`.h5`) have")
        return None
    if r.get("sources") is not None and r.get("targets") is not None and node is None:
        return ""  # any HDF5 file: both are paths of datasets
    names = sorted({name.split("/")[1] for name in found if name.startswith("edges/") and name.count("/") >= 2})
    known = ", ".join(f"`{n}`" for n in names)
    if isinstance(node, Scalar):
        if node.text in names:
            return f"edges/{node.text}/"
        help = did_you_mean(node.text, names) or (f"it has {known}" if known else None)
        c.sink.error("E0702", f"`{file.text}` has no population of edges `{node.text}`", node.span, help)
        return None
    if len(names) == 1:
        return f"edges/{names[0]}/"
    if names:
        c.sink.error("E0702", f"say which edges of `{file.text}` are meant", file.span, f"`population:` {known}")
    else:
        help = "SONATA files have `edges/<population>/source_node_id`; for others give `sources` and `targets`"
        c.sink.error("E0702", f"`{file.text}` has no populations of edges", file.span, help)
    return None


def _column(
    path: Path, found: dict[str, Header], name: str, at: Span, file: Scalar, c: Context
) -> npt.NDArray[np.int64] | None:
    if pick(found, name, at, file, c) is None:
        return None
    try:
        data = read_array(path, name)
    except (OSError, ValueError, TypeError) as error:
        c.sink.error("E0703", f"`{file.text}` cannot be read: {error}", file.span)
        return None
    if data.ndim != 1 or data.dtype.kind not in "iuf":
        message = f"`{name}` must be a list of indices; it is {data.dtype} of shape {list(data.shape)}"
        c.sink.error("E0703", message, at)
        return None
    whole_numbers = data.astype(np.int64)
    if (data.dtype.kind == "f" and not np.array_equal(whole_numbers, data)) or (whole_numbers < 0).any():
        c.sink.error("E0703", f"`{name}` must hold whole numbers from 0", at)
        return None
    return whole_numbers
