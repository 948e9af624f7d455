"""What each feature brings to an event of a class, on average: array arithmetic over many features at once."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from streamnb.learners.kernels.types import Array, Floats


class Evidence(NamedTuple):
    """Of features (rows) for classes (columns)."""

    nats: Floats
    """The log-likelihood against all other classes that it brings; 0 where it says nothing, or no number."""
    here: Floats
    """Mean, or share of the class's events or tokens; `elsewhere`, over all other classes."""
    elsewhere: Floats


def of_shares(numbers: Mapping[str, Floats], weights: Floats, told: Sequence[int]) -> Evidence:
    """p log(p / q), where q is the share over all other classes by their `weights`; for the columns `told`."""
    q = of_others(numbers["p"] * weights) / of_others(weights[None])
    return _of_ratio(numbers["p"][:, told], q[:, told], numbers["count"][:, told] > 0.0)


def of_complements(numbers: Mapping[str, Floats], told: Sequence[int]) -> Evidence:
    """The same where the numbers tell of each class what all others hold; what it holds itself is the rest."""
    others = numbers["p"].shape[1] - 1
    count, total = (
        numbers[name].sum(axis=1, keepdims=True) / others - numbers[name][:, told] for name in ("count", "total")
    )
    p = np.divide(count, total, out=np.zeros_like(count), where=total > 0.0)
    return _of_ratio(p, numbers["p"][:, told], p > 0.0)


def of_moments(numbers: Mapping[str, Floats], told: Sequence[int]) -> Evidence:
    """Kullback and Leibler's divergence of the class's normal density from that of all others taken together."""
    variance, n = numbers["variance"], numbers["n"]
    anchor = numbers["mean"][:, :1]
    mean = numbers["mean"] - anchor  # which keeps the digits of deviations at any offset
    rest = np.where(n > 0.0, of_others(n), 0.0)
    known = rest > 0.0
    elsewhere = np.divide(of_others(n * mean), rest, out=np.zeros_like(n), where=known)
    spread = np.zeros_like(n)
    for c in told:
        around = n * (variance + (mean - elsewhere[:, c : c + 1]) ** 2)
        around[:, c] = 0.0
        spread[:, c] = around.sum(axis=1)
    wide = np.divide(spread, rest, out=np.zeros_like(n), where=known)
    known &= (variance > 0.0) & (wide > 0.0)
    ratio = np.divide(variance, wide, out=np.ones_like(n), where=known)
    apart = np.divide((mean - elsewhere) ** 2, wide, out=np.zeros_like(n), where=known)
    nats = 0.5 * (ratio - 1.0 - np.log(ratio) + apart)
    return Evidence(nats[:, told], numbers["mean"][:, told], (anchor + elsewhere)[:, told])


def of_others(x: Floats) -> Floats:
    """Sum over all other columns, for each column: from both ends, since a difference would lose the small ones."""
    before, after = np.zeros_like(x), np.zeros_like(x)
    np.cumsum(x[:, :-1], axis=1, out=before[:, 1:])
    np.cumsum(x[:, :0:-1], axis=1, out=after[:, -2::-1])
    total: Floats = before + after
    return total


def _of_ratio(p: Floats, q: Floats, learned: Array) -> Evidence:
    ratio = np.divide(p, q, out=np.ones_like(p), where=learned & (p > 0.0) & (q > 0.0))
    return Evidence(p * np.log(ratio), p, q)
