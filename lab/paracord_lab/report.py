# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""The report of a run: results.json, a self-contained HTML page, a Perfetto trace, text for a terminal."""

import html
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median

from . import judge, perfetto, plots, results, store
from .plots import number
from .results import Results
from .scenario import Column, Raw, Scenario
from .selection import left_out_line
from .stats import StatsError
from .verdicts import Verdict, summary

RESULTS, REPORT, TRACE = "results.json", "report.html", "trace.pftrace"
# Behind the name of a configuration in a table.
LEFT_OUT = "(left out)"
LEFT_OUT_HEAD = "Left out, because this host cannot measure it. Verdicts that look at it are skipped:"
# Of a table, beside its first one.
COLUMNS_MAX = 9

_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:76em;margin:2em auto;padding:0 1em;color:#222}
table{border-collapse:collapse;margin:1em 0}
th,td{padding:.3em .8em;border-bottom:1px solid #ddd;text-align:right}
th:first-child,td:first-child{text-align:left}th{background:#f4f4f4}svg{max-width:100%;height:auto}
.pass{color:#0a7a3c}.fail{color:#c0182b}.undecided{color:#a05a00}.skipped{color:#666}
.status{font-weight:600}
.note{color:#555}code{background:#f4f4f4;padding:0 .2em}
"""


def make(scenario: Scenario, out: Path) -> Results:
    """Judges the outputs in out/raw, and writes results.json, report.html and the trace."""
    meta = store.meta(out)
    rounds = store.rounds(out, [c.name for c in scenario.configurations])
    judged = replace(
        judge.judge(scenario, meta, rounds),
        died=tuple(store.deaths(out)),
        disturbed=tuple(store.disturbances(out)),
    )
    results.write(judged, out / RESULTS)
    traces = store.traces(out, scenario.traced)
    if traces:
        perfetto.write(traces, out / TRACE)
    (out / REPORT).write_text(_page(scenario, meta, judged, rounds, bool(traces)))
    return judged


def table(scenario: Scenario, measured: Sequence, left_out: Collection[str] = ()) -> list[list[str]]:
    """
    Head and a row per configuration, medians over the rounds, `–` where a column does not apply. What would
    be too wide to read is turned: a row per column, a column per configuration. A configuration that is left
    out on the host has a row too, which says so.
    """
    rows = [["configuration", *(c.title for c in scenario.columns)]]
    rows += [
        [
            f"{c.name} {LEFT_OUT}" if c.name in left_out else c.name,
            *(_cell(column, measured, c.name) for column in scenario.columns),
        ]
        for c in scenario.configurations
    ]
    return rows if len(scenario.columns) <= COLUMNS_MAX else [list(row) for row in zip(*rows, strict=True)]


def _cell(column: Column, measured: Sequence, configuration: str) -> str:
    try:
        return number(median(column.value(one, configuration) for one in measured))
    except (KeyError, StatsError, ValueError):
        return "–"


def measured_rounds(scenario: Scenario, rounds: Sequence[dict[str, Raw]]) -> list:
    return [{c: scenario.metrics(c, raw) for c, raw in one.items()} for one in rounds]


def text(scenario: Scenario, out: Path, judged: Results) -> str:
    """The text for a terminal: table, verdicts, paths."""
    rounds = store.rounds(out, [c.name for c in scenario.configurations])
    shown = table(scenario, measured_rounds(scenario, rounds), judged.left_out)
    widths = [max(len(row[i]) for row in shown) for i in range(len(shown[0]))]
    lines = [
        "  ".join(
            cell.ljust(w) if i == 0 else cell.rjust(w)
            for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in shown
    ]
    lines.insert(1, "-" * len(lines[0]))
    lines += ["", *(verdict_line(v) for v in judged.verdicts), ""]
    if judged.left_out:
        lines += [*(left_out_line(name, reason) for name, reason in judged.left_out.items()), ""]
    if judged.died:
        lines += [died_line(judged), ""]
    if judged.disturbed:
        lines += [disturbed_line(judged), *(f"  {line}" for line in judged.disturbed), ""]
    for file, what in ((RESULTS, "results"), (REPORT, "report "), (TRACE, "trace  ")):
        if (out / file).exists():
            hint = "   (open in ui.perfetto.dev)" if file == TRACE else ""
            lines.append(f"{what}  {out / file}{hint}")
    return "\n".join(lines)


def verdict_line(verdict: Verdict) -> str:
    line = (
        f"{verdict.status.upper():9}  {verdict.name}: {number(verdict.value)} "
        f"(limit {verdict.relation} {number(verdict.limit)} {verdict.unit})"
    )
    if verdict.beside:
        line += "; " + ", ".join(f"{name} {number(value)}" for name, value in verdict.beside.items())
    return line + (f"; {verdict.reason}" if verdict.reason else "")


def died_line(judged: Results) -> str:
    return f"{len(judged.died)} emulated machines died; their rounds were repeated: " + "; ".join(judged.died)


def disturbed_line(judged: Results) -> str:
    return f"This machine did other work during {len(judged.disturbed)} measurements; repeat them without it:"


def _page(
    scenario: Scenario, meta: store.Meta, judged: Results, rounds: list[dict[str, Raw]], traced: bool
) -> str:
    head, *body = table(scenario, measured_rounds(scenario, rounds), judged.left_out)
    shown = _row(head, "th") + "".join(_row(row, "td") for row in body)
    drawn = [plots.draw(plot, judged, rounds) for plot in scenario.plots()]
    figures = "".join(f"<figure>{svg}</figure>\n" for svg in drawn if svg)
    without = f" Mechanism switched off: <b>{html.escape(meta.without)}</b>." if meta.without else ""
    emulated = (
        " The host is emulated without virtualisation hardware: compare configurations, never absolute times."
        if meta.host == "emulated"
        else ""
    )
    trace = (
        f'<p>Trace: <a href="{TRACE}"><code>{TRACE}</code></a>, for ui.perfetto.dev: one section per '
        f"configuration; look at the vCPU tracks for <i>{perfetto.WAITING}</i>.</p>"
        if traced
        else ""
    )
    died = f'<p class="status fail">{html.escape(died_line(judged))}</p>' if judged.died else ""
    disturbed = ""
    if judged.disturbed:
        items = "".join(f"<li>{html.escape(line)}</li>" for line in judged.disturbed)
        disturbed = f'<p class="status undecided">{html.escape(disturbed_line(judged))}</p><ul>{items}</ul>'
    left_out = ""
    if judged.left_out:
        named = (f"{name}: {reason}" for name, reason in judged.left_out.items())
        items = "".join(f"<li>{html.escape(line)}</li>" for line in named)
        left_out = f'<p class="status undecided">{LEFT_OUT_HEAD}</p><ul>{items}</ul>'
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>paracord: {html.escape(scenario.name)}</title>
<style>{_STYLE}</style></head><body>
<h1>{html.escape(scenario.name)}</h1>
<p>{html.escape(scenario.summary)}</p>
<p class="note">Host: {html.escape(meta.host)}, {html.escape(meta.arch)}, {scenario.cpus} CPUs, Linux
{html.escape(meta.kernel)}. Rounds, interleaved: {len(rounds)} of {meta.rounds}; values are their medians.
{without}{emulated}</p>{left_out}{died}{disturbed}
<h2>Configurations</h2>
<table>{shown}</table>
<h2>Verdicts</h2>
<p>{html.escape(summary(judged.verdicts))}</p>
<table><tr><th>verdict</th><th>status</th><th>value</th><th>limit</th><th>rounds</th><th>beside</th></tr>
{"".join(_verdict_row(v) for v in judged.verdicts)}</table>
{figures}{trace}
</body></html>
"""


def _row(cells: Sequence[str], kind: str) -> str:
    return "<tr>" + "".join(f"<{kind}>{html.escape(cell)}</{kind}>" for cell in cells) + "</tr>\n"


def _verdict_row(verdict: Verdict) -> str:
    beside = ", ".join(f"{name} {number(value)}" for name, value in verdict.beside.items())
    reason = f'<br><span class="note">{html.escape(verdict.reason)}</span>' if verdict.reason else ""
    return (
        f"<tr><td>{html.escape(verdict.name)}{reason}</td>"
        f'<td class="status {verdict.status}">{verdict.status}</td><td>{number(verdict.value)}</td>'
        f"<td>{html.escape(verdict.relation)} {number(verdict.limit)} {html.escape(verdict.unit)}</td>"
        f"<td>{', '.join(number(v) for v in verdict.rounds)}</td><td>{html.escape(beside)}</td></tr>\n"
    )
