# SPDX-License-Identifier: Apache-2.0 OR BSD-3-Clause
"""Plots of a report as inline SVG. Every axis names its quantity and unit."""

import io
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from . import cache

# The files that matplotlib keeps between runs are in the lab's cache, not among the user's own
# files.
os.environ.setdefault("MPLCONFIGDIR", str(cache.root() / "matplotlib"))

import matplotlib

matplotlib.use("svg")

from matplotlib import pyplot

from . import cyclictest, stats
from .results import UNITS, Results
from .scenario import Raw

WIDTH_IN, HEIGHT_IN = 11.0, 3.9
# Okabe and Ito's palette, whose colours people with any colour vision can distinguish. All reports
# use the same colours.
COLOURS = {
    "vanilla": "#D55E00",
    "stock": "#D55E00",
    "boost-ext": "#CC79A7",
    "ext": "#CC79A7",
    "boost-rt-unmodified": "#56B4E9",
    "boost-rt": "#0072B2",
    "static-rt": "#E69F00",
    "host-native": "#009E73",
}
# The palette does not contain the brown and the dark violet.
OTHER_COLOURS = ("#000000", "#999999", "#8B4513", "#4B0082", "#F0E442")


@dataclass(frozen=True)
class Distribution:
    """The CDF of wakeup latency per configuration. `output` finds cyclictest's JSON object in raw outputs."""

    title: str
    output: Callable[[Raw], Mapping | None]


@dataclass(frozen=True)
class Bars:
    """
    The medians of metrics per configuration. Whiskers show the smallest and the largest round.
    """

    title: str
    metrics: Mapping[str, str]
    unit: str
    logarithmic: bool = False
    reference: float | None = None
    reference_name: str = ""


@dataclass(frozen=True)
class Course:
    """
    Values over time in the first round, with a panel per configuration that has values. `steps`
    returns [ms, value] by name. apart: distance by which each curve is drawn above the one before,
    in case several have the same value.
    """

    title: str
    steps: Callable[[Raw], Mapping[str, Sequence[Sequence[float]]]]
    quantity: str
    apart: float = 0.0


Plot = Distribution | Bars | Course


def draw(plot: Plot, results: Results, rounds: Sequence[Mapping[str, Raw]]) -> str:
    """The SVG of one plot. Empty if none of its data was measured."""
    panels = 1
    if isinstance(plot, Distribution):
        panels = 2
    elif isinstance(plot, Course):
        panels = len(_courses(plot, rounds[0])) or 1
    figure, axes = pyplot.subplots(
        1, panels, figsize=(WIDTH_IN, HEIGHT_IN), layout="constrained", squeeze=False
    )
    try:
        if isinstance(plot, Course):
            drawn = _course(plot, axes[0], rounds[0])
        elif isinstance(plot, Distribution):
            drawn = _distribution(plot, axes[0], results, rounds)
        else:
            drawn = _bars(plot, axes[0][0], results)
        if not drawn:
            return ""
        figure.suptitle(plot.title, x=0.01, ha="left", fontsize=12)
        for one in axes[0]:
            one.spines[["top", "right"]].set_visible(False)
            one.grid(True, axis="y" if isinstance(plot, Bars) else "both", alpha=0.3)
            one.set_axisbelow(True)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None})
        text = buffer.getvalue()
        return text[text.index("<svg") :]
    finally:
        pyplot.close(figure)


def colour(configuration: str, configurations: Sequence[str]) -> str:
    """The colour of a configuration. It is the same in all plots of a report with these configurations."""
    others = [name for name in configurations if name not in COLOURS]
    if configuration in COLOURS:
        return COLOURS[configuration]
    return OTHER_COLOURS[others.index(configuration) % len(OTHER_COLOURS)]


def _distribution(plot: Distribution, axes, results: Results, rounds: Sequence[Mapping[str, Raw]]) -> bool:
    """
    Left: the share at or below a latency. Right: the share above it, on a logarithmic axis, which
    shows the tail.
    """
    below, above = axes
    drawn = False
    for name in results.configs():
        outputs = [plot.output(one[name]) for one in rounds if name in one]
        runs = [cyclictest.latency(output) for output in outputs if output]
        if not runs:
            continue
        merged = stats.merge([run.histogram for run in runs])
        total = sum(merged.values()) + sum(run.overflows for run in runs)
        values, shares, seen = [], [], 0
        for us in sorted(merged):
            seen += merged[us]
            values.append(max(us, 1))
            shares.append(100 * seen / total)
        style = {"where": "post", "color": colour(name, results.configs()), "linewidth": 1.8}
        below.step(values, shares, label=name, **style)
        # No sample is above the last one, and a logarithmic axis cannot show zero.
        above.step(values[:-1], [100 - share for share in shares[:-1]], **style)
        drawn = True
    for one in axes:
        one.set_xscale("log")
        one.set_xlabel("wakeup latency (µs, logarithmic)")
    below.set_ylabel("wakeups at or below it (%)")
    below.set_ylim(0, 101)
    above.set_ylabel("wakeups above it (%, logarithmic)")
    above.set_yscale("log")
    if drawn:
        below.legend(loc="lower right", fontsize=9)
    return drawn


def _bars(plot: Bars, axes, results: Results) -> bool:
    configurations = [
        c for c in results.configs() if any(results.series(c, metric) for metric in plot.metrics)
    ]
    if not configurations:
        return False
    width = 0.8 / len(configurations)
    for index, name in enumerate(configurations):
        positions, medians, below, above = [], [], [], []
        for place, metric in enumerate(plot.metrics):
            series = results.series(name, metric)
            if series is None:
                continue
            positions.append(place + (index - (len(configurations) - 1) / 2) * width)
            medians.append(series.median)
            below.append(series.median - min(series.rounds))
            above.append(max(series.rounds) - series.median)
        axes.bar(
            positions,
            medians,
            width * 0.92,
            yerr=[below, above],
            capsize=2,
            error_kw={"linewidth": 1, "ecolor": "#444444"},
            color=colour(name, results.configs()),
            label=name,
        )
        for position, value in zip(positions, medians, strict=True):
            axes.annotate(compact(value), (position, value), (3, 2), textcoords="offset points", fontsize=8)
    axes.set_xticks(range(len(plot.metrics)), plot.metrics.values())
    axes.set_ylabel(UNITS[plot.unit] + (", logarithmic" if plot.logarithmic else ""))
    if plot.logarithmic:
        axes.set_yscale("log")
    if plot.reference is not None:
        axes.axhline(plot.reference, color="#444444", linestyle="--", linewidth=1, label=plot.reference_name)
    # The legend is beside the bars, where it hides none of them.
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=9, frameon=False)
    return True


def _courses(plot: Course, one: Mapping[str, Raw]) -> list[str]:
    """The configurations that have data to draw. Their order differs between rounds."""
    return sorted((name for name, raw in one.items() if any(plot.steps(raw).values())), reverse=True)


def _course(plot: Course, axes, one: Mapping[str, Raw]) -> bool:
    names = _courses(plot, one)
    top = 0.0
    for panel, name in zip(axes, names, strict=False):
        end_s = one[name]["trace"]["duration_ms"] / 1e3
        for index, (label, steps) in enumerate(sorted(plot.steps(one[name]).items())):
            if not steps:
                continue
            times = [at / 1e3 for at, _ in steps] + [end_s]
            values = [value + index * plot.apart for _, value in steps]
            panel.step(times, [*values, values[-1]], where="post", linewidth=1.2, label=label)
            top = max(top, *values)
        panel.set_title(name, fontsize=10)
        panel.set_xlabel("time (s)")
        if panel.get_legend_handles_labels()[0]:
            panel.legend(fontsize=7, loc="upper right", ncols=2)
    for panel in axes:
        panel.set_ylim(-0.02 * top, 1.25 * top or 1)
    axes[0].set_ylabel(plot.quantity)
    return bool(names)


def number(value: float | None) -> str:
    """A number with three significant digits and no exponent."""
    if value is None:
        return "–"
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.3g}"


def compact(value: float) -> str:
    """Like number(), but with thousands as k, because there is little room above a bar."""
    return f"{number(value / 1000)}k" if abs(value) >= 10_000 else number(value)
