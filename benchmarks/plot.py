"""The scaling plot of the README: time per candidate against the number of candidates, one line a contestant."""

from __future__ import annotations

from pathlib import Path

from .timing import Cell

_COLOURS = {
    "memsel": "#c0392b",
    "numpy argsort": "#1f6fb2",
    "numpy partition": "#5dade2",
    "polars": "#8e44ad",
    "duckdb, 1 thread": "#b7950b",
    "duckdb, default threads": "#f4d03f",
    "numba": "#28804b",
    "streaming read": "#555555",
}


def draw(cells: list[Cell], path: Path) -> None:
    """Draw the float64 lines of the arrays suite, and the floor dashed, as an SVG file."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "memsel"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8.0, 5.0))
    for name, colour in _COLOURS.items():
        suite = "read" if name == "streaming read" else "arrays"
        points = sorted(
            (cell.rows, cell.seconds / cell.rows * 1e9)
            for cell in cells
            if cell.suite == suite and cell.work == "float64" and cell.contestant == name
        )
        if not points:
            continue
        rows, nanoseconds = zip(*points, strict=True)
        floor = name == "streaming read"
        axes.plot(
            rows,
            nanoseconds,
            color=colour,
            linestyle="--" if floor else "-",
            linewidth=2.4 if name == "memsel" else 1.4,
            marker=None if floor else "o",
            markersize=3.0,
            label=f"{name} (floor)" if floor else name,
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("candidates")
    axes.set_ylabel("nanoseconds per candidate")
    axes.grid(True, which="major", color="#dddddd", linewidth=0.6)
    axes.legend(frameon=False, fontsize=9)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.tight_layout()
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
