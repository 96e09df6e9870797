"""A report of runs, or of a sweep, as one HTML file that needs no network.

Assumes: run directories, or the folder of a sweep (compiler/sweep/run.py).
Guarantees: all text from outside is escaped; files that are missing or unreadable leave out their figure and are named.
Does not: run anything.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, Final

import numpy as np

import compiler.ir.level0.model as l0
from compiler.core.diagnostics import NetloomError, RunError
from compiler.report.charts import Floats, dots, heat_map, lines, number, parallel
from compiler.report.diagram import diagram
from compiler.report.runs import Run, open_run
from compiler.runtime.artifacts.records import open_records
from compiler.runtime.artifacts.trained import model_of_run
from compiler.runtime.common.metrics import read_metrics
from compiler.runtime.common.rates import activities
from compiler.runtime.expectations import Check

STYLE: Final = """
body{font:14px/1.5 system-ui,sans-serif;color:#2e3436;max-width:760px;margin:2em auto;padding:0 1em}
h1{font-size:1.5em}h2{font-size:1.15em;border-bottom:1px solid #d3d7cf;margin-top:2em}
h3{font-size:1em;margin-bottom:.2em}
table{border-collapse:collapse;font-size:13px}td,th{padding:.15em .8em .15em 0;text-align:left;vertical-align:top}
th{font-weight:600;border-bottom:1px solid #d3d7cf}td.n{text-align:right;font-variant-numeric:tabular-nums}
svg{width:100%;height:auto;font:11px system-ui,sans-serif;display:block;margin:.3em 0}
svg text{fill:#555753}.small{font-size:9px}.grid{stroke:#eeeeec}.axis{stroke:#888a85}
.box{fill:#f3f6fa;stroke:#3465a4}.hover:hover{stroke:#000;stroke-width:3}
.legend span{margin-right:1.2em}.legend i{display:inline-block;width:.8em;height:.8em;margin-right:.4em}
.note,.from{color:#888a85;font-size:12px}.bad{color:#a40000}pre{background:#f6f6f4;padding:.7em;overflow-x:auto}
.scroll{overflow-x:auto}
"""
MOST_ROWS: Final = 300
MOST_TRACES: Final = 6


def report(folders: Sequence[Path]) -> str:
    """The page for run directories, or for the folder of a sweep. Raises RunError (E0916, exit 2)."""
    if len(folders) == 1 and (folders[0] / "sweep.csv").is_file():
        return document(f"Sweep of {folders[0].name}", _sweep(folders[0]))
    runs = [open_run(folder) for folder in folders]
    body = "" if len(runs) == 1 else _compared(runs)
    title = runs[0].name if len({r.name for r in runs}) == 1 else "runs"
    return document(title, body + "".join(_run(run, len(runs) == 1) for run in runs))


def summary(folder: Path) -> str:
    """One run as a part of a page, for notebooks. Raises RunError (E0916, exit 2)."""
    own = re.sub(r"[^{}]+\{", lambda m: ",".join(f".netloom {w.strip()}" for w in m[0][:-1].split(",")) + "{", STYLE)
    scoped = own.replace(".netloom body{", ".netloom{").replace("margin:2em auto", "margin:0")
    return f'<style>{scoped}</style><div class="netloom">{_run(open_run(folder), True)}</div>'


def document(title: str, body: str) -> str:
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{STYLE}</style>'
    return f"<!doctype html><html lang=en><head>{head}</head><body>{body}</body></html>\n"


def table(rows: Sequence[Sequence[Any]], header: Sequence[str] = ()) -> str:
    """A table; numbers stand to the right."""
    head = "<tr>" + "".join(f"<th>{escape(h)}</th>" for h in header) + "</tr>" if header else ""
    body = "".join("<tr>" + "".join(_cell(v) for v in row) + "</tr>" for row in rows)
    return f'<div class="scroll"><table>{head}{body}</table></div>'


def _cell(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):  # of a damaged run.json anything
        return f"<td>{escape('' if value is None else str(value))}</td>"
    return f'<td class="n">{number(value) if isinstance(value, float) else f"{value:,}"}</td>'


# ------------------------------------------------------------------------------------------------ runs


def _compared(runs: Sequence[Run]) -> str:
    """A row per run: what differs between them, and their results."""
    settings = [{**(r.record.get("params") or {}), **r.settings} for r in runs]
    names = list(dict.fromkeys(n for s in settings for n in s))
    names = [n for n in names if len({str(s.get(n)) for s in settings}) > 1]
    results = list(dict.fromkeys(n for r in runs for n in r.results))
    rows = [
        [r.folder.name, *(s.get(n) for n in names), r.status, *(r.results.get(n) for n in results)]
        for r, s in zip(runs, settings, strict=True)
    ]
    curves = {r.folder.name: _history(r, "loss") for r in runs}
    curves = {n: c for n, c in curves.items() if len(c[0])}
    figure = lines(curves, ("epoch", "loss"), zero=True) if curves else ""
    return f"<h1>{len(runs)} runs</h1>" + table(rows, ["run", *names, "status", *results]) + figure


def _run(run: Run, alone: bool) -> str:
    record = run.record
    level = "h1" if alone else "h2"
    bad = "" if run.status == "ok" else ' class="bad"'
    said = escape(str(record.get("message") or ""))
    parts = [f"<{level}>{escape(run.name if alone else run.folder.name)}</{level}>"]
    try:
        model: l0.Model | None = model_of_run(run.folder)
    except NetloomError as error:
        model = None
        parts.append(f'<p class="note">the model cannot be read: {escape(str(error).splitlines()[0])}</p>')
    if model is not None and model.description:
        parts.append(f"<p>{escape(model.description)}</p>")
    device = escape(str(record.get("device") or record.get("target")))
    seconds = f"{run.seconds:.2f} CPU s in all on {device}"
    parts.append(f"<p{bad}>{escape(run.status)} {said}</p><p class=from>{escape(run.started)}, {seconds}</p>")
    parts += [_numbers(run), _expectations(record)]
    if model is not None:
        parts.append("<h3>Model</h3>" + diagram(model))
        parts += _figures(run, model)
    for warning in record.get("warnings") or ():
        parts.append(f'<p class="note">warning: {escape(str(warning))}</p>')
    return "".join([*parts, _decisions(record), _reproduce(run)])


def _numbers(run: Run) -> str:
    rows = [[n, float(v), "Hz" if n.startswith("rate.") else ""] for n, v in run.results.items() if v is not None]
    params = [[n, v] for n, v in (run.record.get("params") or {}).items()]
    given = f"<h3>Parameters</h3>{table(params)}" if params else ""
    return (f"<h3>Results</h3>{table(rows)}" if rows else "") + given


def _expectations(record: Mapping[str, Any]) -> str:
    checks = [Check(**c) for c in record.get("expectations") or ()]
    rows = [[c.subject, c.shown, c.bounds, "met" if c.met else "not met"] for c in checks]
    return f"<h3>Expectations</h3>{table(rows, ['', 'found', 'expected', ''])}" if rows else ""


def _decisions(record: Mapping[str, Any]) -> str:
    """What the passes decided, folded away."""
    rows = [list(d) for d in record.get("decisions") or ()]
    if not rows:
        return ""
    head = f"<summary>{len(rows):,} decisions of the compiler</summary>"
    return f"<details>{head}{table(rows, ['pass', 'about', 'decision', 'because'])}</details>"


def _reproduce(run: Run) -> str:
    record = run.record
    given = "".join(f" --set {n}={v}" for n, v in (record.get("settings") or {}).items())
    numerics = record.get("numerics") or {}
    text = (
        f"netloom run {record.get('model', {}).get('file')}{given} --seed {record.get('seed')} --target "
        f"{record.get('target')}"
    )
    text += f" --precision {numerics.get('precision')} --order {numerics.get('order')}"
    rows = [
        ["netloom", str(record.get("netloom"))],
        ["model", str((record.get("model") or {}).get("hash"))],
        ["git", str(record.get("git") or "-")],
        ["command", " ".join(record.get("command") or ()) or "-"],
        ["compiler", str(record.get("compiler"))],
    ]
    return f"<h3>To reproduce</h3><pre>{escape(text)}</pre>{table(rows)}"


def _figures(run: Run, model: l0.Model) -> list[str]:
    parts = []
    for title, draw in (("Spikes", _spikes), ("Traces", _traces), ("Training", _training)):
        try:
            found = draw(run, model)
        except (OSError, KeyError, ValueError, NetloomError) as error:
            found = f'<p class="note">cannot be read: {escape(str(error)[:200])}</p>'
        if found:
            parts.append(f"<h3>{title}</h3>{found}")
    return parts


def _spikes(run: Run, model: l0.Model) -> str:
    """A raster, and the rates over time as the summary counts them."""
    path = run.folder / "spikes.h5"
    if not path.is_file() or not model.spikes:
        return ""
    window = run.record.get("recorded_steps")
    recorded = activities(model, (window[0], window[1]) if window else None)
    raster: dict[str, tuple[Floats, Floats]] = {}
    rates: dict[str, tuple[Floats, Floats]] = {}
    base = 0
    with open_records(path) as file:
        for name, activity in recorded.items():
            times = file[f"spikes/{name}/timestamps"][:]
            places = activity.places(file[f"spikes/{name}/node_ids"][:].astype(np.int64))
            raster[name] = times, (places + base).astype(np.float64)
            edges, rate = activity.over_time(times, 100)
            if len(rate):
                rates[name] = (edges[:-1] + edges[1:]) / 2, rate
            base += activity.neurons
    if not sum(len(t) for t, _ in raster.values()):
        return "<p>no spike was recorded</p>"
    return dots(raster, ("time (ms)", "neuron")) + (
        lines(rates, ("time (ms)", "rate (Hz)"), zero=True) if rates else ""
    )


def _traces(run: Run, model: l0.Model) -> str:
    path = run.folder / "traces.h5"
    if not path.is_file():
        return ""
    out = []
    with open_records(path) as file:
        for group in file:
            for variable in file[group]:
                if variable in ("members", "time"):
                    continue
                data, time = file[group][variable], file[group]["time"][:]
                members = file[group]["members"][:MOST_TRACES] if "members" in file[group] else range(data.shape[1])
                series = {f"{group} {m}": (time, data[:, k].astype(np.float64)) for k, m in enumerate(members)}
                unit = str(data.attrs.get("unit", "1"))
                label = f"{variable} ({unit})" if unit not in ("1", "") else str(variable)
                out.append(lines(series, ("time (ms)", label), points=False))
    return "".join(out[:8])


def _history(run: Run, name: str) -> tuple[Floats, Floats]:
    rows = [r for r in read_metrics(run.folder) if name in r]
    return np.array([r["epoch"] for r in rows], np.float64), np.array([r[name] for r in rows], np.float64)


def _training(run: Run, model: l0.Model) -> str:
    rows = read_metrics(run.folder)
    names = [n for n in rows[0] if n not in ("epoch", "seconds") and not n.startswith("validation_")] if rows else []
    out = []
    for name in names:
        series = {"training": _history(run, name), "validation": _history(run, f"validation_{name}")}
        out.append(lines({k: v for k, v in series.items() if len(v[0])}, ("epoch", name), zero=name == "loss"))
    return "".join(out)


# ----------------------------------------------------------------------------------------------- sweep


def _sweep(folder: Path) -> str:
    """The table of a sweep, a figure per result, mean and spread over seeds."""
    with (folder / "sweep.csv").open(encoding="utf-8", newline="") as stream:
        rows = [dict(r) for r in csv.DictReader(stream)]
    if not rows:
        raise RunError("E0916", f"`{folder}/sweep.csv` holds no trial")
    swept = [n for n in rows[0] if n.startswith("set.")]
    fixed = {"trial", "seed", "status", "seconds", "message", *swept}
    results = [n for n in rows[0] if n not in fixed and not n.startswith("spikes.")]
    done = [r for r in rows if r["status"] == "ok"]
    pruned = sum(r["status"] == "pruned" for r in rows)
    failed = [r for r in rows if r["status"] not in ("ok", "missing", "pruned")]
    said = f"{len(rows):,} trials, {len(done):,} ok, {len(failed):,} failed or interrupted"
    said += f", {pruned:,} ended early" if pruned else ""
    parts = [f"<h1>Sweep of {escape(folder.name)}</h1><p>{said}</p>"]
    for name in results[:12]:
        values = [r for r in done if r.get(name) not in (None, "")]
        if values:
            parts.append(f"<h2>{escape(name)}</h2>{_result(values, swept, name)}")
    for row in failed[:20]:
        parts.append(f'<p class="bad">{escape(row["trial"])}: {escape(row["message"] or row["status"])}</p>')
    shown = [
        [r[n] if n in ("trial", "status") else _value(r[n]) for n in rows[0] if n != "message"]
        for r in rows[:MOST_ROWS]
    ]
    parts.append("<h2>Trials</h2>" + table(shown, [n.removeprefix("set.") for n in rows[0] if n != "message"]))
    if len(rows) > MOST_ROWS:
        parts.append(f'<p class="note">{len(rows) - MOST_ROWS:,} more are in sweep.csv</p>')
    return "".join(parts)


def _value(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _leading(text: str) -> float | str:
    """The number at the beginning of a value with a unit."""
    return _value(text.split()[0]) if text.split() else text


def _result(rows: Sequence[Mapping[str, str]], swept: Sequence[str], name: str) -> str:
    """One result over what was swept: a line for one parameter, a heat map for two, else parallel coordinates; over
    seeds the mean, with the standard deviation beside it."""
    groups: dict[tuple[str, ...], list[float]] = {}
    for row in rows:
        groups.setdefault(tuple(row[n] for n in swept), []).append(float(row[name]))
    label = [n.removeprefix("set.") for n in swept]
    values = list(groups.values())
    seeds = max(len(v) for v in values)
    note = f'<p class="note">mean over up to {seeds} seeds</p>' if seeds > 1 else ""
    if len(swept) == 1 and all(isinstance(_leading(k[0]), float) for k in groups):
        order = sorted(groups, key=lambda k: float(_leading(k[0])))
        x = np.array([float(_leading(k[0])) for k in order])
        mean = np.array([np.mean(groups[k]) for k in order])
        series = {name: (x, mean)}
        if seeds > 1:
            spread = np.array([np.std(groups[k], ddof=1) if len(groups[k]) > 1 else 0.0 for k in order])
            series |= {"mean + sd": (x, mean + spread), "mean - sd": (x, mean - spread)}
        return lines(series, (label[0], name)) + note
    if len(swept) == 2 and max(len({k[i] for k in groups}) for i in (0, 1)) <= 40:
        columns, lists = (sorted({k[i] for k in groups}, key=_order) for i in (1, 0))
        grid = np.array([[np.mean(groups.get((r, c), [np.nan])) for c in columns] for r in lists])
        return heat_map(columns, lists, grid, (label[1], label[0], name)) + note
    if not swept:
        flat = [v for group in values for v in group]
        said = f"mean {number(float(np.mean(flat)))}, standard deviation {number(float(np.std(flat)))}"
        return f"<p>{said} of {len(flat)}</p>"
    axes = {n: [_leading(k[i]) for k in groups] for i, n in enumerate(label)}
    return parallel({**axes, name: [float(np.mean(v)) for v in values]}, name) + note


def _order(text: str) -> tuple[bool, float, str]:
    value = _leading(text)
    return (False, value, "") if isinstance(value, float) else (True, 0.0, value)
