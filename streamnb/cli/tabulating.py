"""Rows of text in columns, and how numbers are written in them."""

import math
from collections.abc import Iterable, Sequence

FULL, EIGHTHS = "█", " ▏▎▍▌▋▊▉"
LONGEST_CELL = 40


def table(head: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[int] = ()) -> list[str]:
    """Lines with columns as wide as their widest cell; those of the numbers in `right` end at the right."""
    shown = [[shortened(cell) for cell in row] for row in [head, *rows]]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if place in right else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in shown
    ]


def shortened(text: str, longest: int = LONGEST_CELL) -> str:
    """A text on one line, cut where it is too long."""
    line = text if text.isprintable() else "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def number(value: float) -> str:
    """Six digits at most; whole numbers as they are."""
    if math.isfinite(value) and value == int(value) and abs(value) < 1e15:
        return str(int(value))
    return f"{value:.6g}"


def bar(value: float, largest: float, width: int) -> str:
    """A bar from the middle of `2 * width` cells: to the right if above 0."""
    share = min(1.0, abs(value) / largest) if largest > 0.0 and not math.isnan(value) else 0.0
    if math.isinf(value):
        share = 1.0
    eighths = round(share * width * 8)
    if value >= 0:
        return " " * width + "│" + FULL * (eighths // 8) + EIGHTHS[eighths % 8].strip()
    return (FULL * math.ceil(eighths / 8)).rjust(width) + "│"
