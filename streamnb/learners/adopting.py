"""Fitted scikit-learn estimators to models."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from streamnb.learners import nb, saving
from streamnb.learners.codec import names_to_json
from streamnb.learners.exchange import sklearn_modules
from streamnb.learners.kernels import moments
from streamnb.learners.kernels.gaussian import ANCHOR, EVENTS, FIELDS, M2, N
from streamnb.learners.kernels.types import Array, Floats
from streamnb.learners.values import Label, plain_category, plain_label

if TYPE_CHECKING:
    from streamnb.learners.model import Model

M = TypeVar("M", bound="Model")

KINDS: tuple[type["Model"], ...] = (
    nb.GaussianNB,
    nb.MultinomialNB,
    nb.ComplementNB,
    nb.BernoulliNB,
    nb.CategoricalNB,
)
"""Each has a namesake in scikit-learn."""
LEAST_UNFORCED_ALPHA = 1e-10


class _State(NamedTuple):
    """What is read of an estimator: the learner's options, its names and the arrays as its block dumps them."""

    options: dict[str, Any]
    names: dict[str, Any]
    arrays: list[Array]


class _Fitted(NamedTuple):
    """An estimator, its labels, their summed weights, and the names of its columns."""

    estimator: Any
    labels: list[Label]
    n: Floats
    names: list[Any]


def from_sklearn(kind: type[M], estimator: Any) -> M:
    """Return the model that has learned what a fitted estimator has; `kind` may be Model for whichever fits.

    Its own epsilon is that of the batch fit, so variances come back up to the rounding of `epsilon_`. Events are as
    many as the summed weights. The model refuses unlearning and tfidf.
    """
    sklearn = sklearn_modules()
    from sklearn.utils.validation import check_is_fitted

    encoder, inner = _taken_apart(estimator, sklearn)
    found = next((k for k in KINDS if isinstance(inner, getattr(sklearn.naive_bayes, k.__name__))), None)
    if found is None or not issubclass(found, kind):
        raise TypeError(f"cannot make a {kind.__name__} of {type(inner).__name__}")
    check_is_fitted(inner)
    labels = [plain_label(label) for label in inner.classes_.tolist()]
    n = _checked("class_count_", inner.class_count_)
    if not n.sum() > 0.0:
        raise ValueError("class_count_: the estimator has learned nothing")
    names = list(getattr(inner if encoder is None else encoder, "feature_names_in_", range(inner.n_features_in_)))
    fitted = _Fitted(inner, labels, n, names)
    read: Callable[[_Fitted], _State] = {
        nb.GaussianNB: _read_gaussian,
        nb.MultinomialNB: _read_multinomial,
        nb.ComplementNB: _read_complement,
        nb.BernoulliNB: _read_bernoulli,
        nb.CategoricalNB: _read_categorical,
    }[found]
    state = read(fitted) if encoder is None else _read_encoded(encoder, fitted)
    if not isinstance(state.options["priors"], Mapping) and not n.all():
        state.options["classes"] = labels  # those never seen are known nevertheless
    model = found(**state.options)
    header = {
        "classes": labels,
        "landmark": None,
        "latest": None,
        "rounded": True,
        "blocks": [names_to_json(state.names)],
    }
    saving.load(model, header, [np.stack([_events(n), n, np.zeros_like(n)], axis=1), *state.arrays])
    return model


def _taken_apart(estimator: Any, sklearn: Any) -> tuple[Any, Any]:
    """Return the OrdinalEncoder, or None, and the naive Bayes of what may be a pipeline of the two."""
    if not isinstance(estimator, sklearn.pipeline.Pipeline):
        return None, estimator
    steps = [step for _, step in estimator.steps]
    if (
        len(steps) != 2
        or not isinstance(steps[0], sklearn.preprocessing.OrdinalEncoder)
        or not isinstance(steps[1], sklearn.naive_bayes.CategoricalNB)
    ):
        raise TypeError("of pipelines, only those of an OrdinalEncoder and a CategoricalNB are taken")
    return steps[0], steps[1]


def _checked(what: str, values: Any) -> Floats:
    array = np.array(values, np.float64)
    if not (np.isfinite(array) & (array >= 0.0)).all():
        raise ValueError(f"{what}: numbers from 0 on are due")
    return array


def _events(n: Floats) -> Floats:
    """Return how many events a summed weight stands for: what has any weight was at least one."""
    return np.maximum(np.round(n), n > 0.0)


def _priors(labels: list[Label], given: Any) -> Any:
    p = _checked("priors", given)
    if p.shape != (len(labels),):
        raise ValueError(f"priors: {len(p)} of them for {len(labels)} classes")
    if (p == p[0]).all():
        return "uniform"
    total = float(p.sum())
    return dict(zip(labels, (p if abs(total - 1.0) <= 1e-9 else p / total).tolist(), strict=True))


def _read_gaussian(fitted: _Fitted) -> _State:
    estimator, labels, n, names = fitted
    theta = np.array(estimator.theta_, np.float64)
    variance = _checked("var_", estimator.var_)
    if not np.isfinite(theta).all():
        raise ValueError("theta_: finite numbers are due")
    cells = np.zeros((len(names), len(labels) + 1, FIELDS))
    seen = n > 0.0
    cells[:, 1:, N] = n
    cells[:, 1:, EVENTS] = _events(n)
    cells[:, 1:, ANCHOR] = np.where(seen, theta.T, 0.0)
    cells[:, 1:, M2] = np.where(seen, np.maximum(variance - estimator.epsilon_, 0.0).T * n, 0.0)
    order = np.arange(len(labels))
    for f in range(len(names)):
        moments.pool(cells, f, order)
    priors = "empirical" if estimator.priors is None else _priors(labels, estimator.priors)
    return _State({"priors": priors, "var_smoothing": float(estimator.var_smoothing)}, {"features": names}, [cells])


def _discrete_options(fitted: _Fitted) -> dict[str, Any]:
    estimator = fitted.estimator
    alpha = estimator.alpha
    if np.ndim(alpha) > 0:
        raise TypeError("alpha: one for all features is due, not an array")
    if not estimator.force_alpha:
        alpha = max(alpha, LEAST_UNFORCED_ALPHA)
    if estimator.class_prior is not None:
        priors = _priors(fitted.labels, estimator.class_prior)
    else:
        priors = "empirical" if estimator.fit_prior else "uniform"
    return {"alpha": float(alpha), "priors": priors}


def _read_counts(fitted: _Fitted) -> tuple[dict[str, Any], list[Array]]:
    counts = _checked("feature_count_", fitted.estimator.feature_count_)
    presented = np.zeros((len(fitted.names), 2))  # events and df; the latter is not known, so tfidf is refused
    presented[:, 0] = _events(fitted.n).sum()
    arrays: list[Array] = [counts.T, presented, counts.sum(axis=1)[None, :], np.array([fitted.n.sum()])]
    return {"groups": [None], "tokens": [fitted.names]}, arrays


def _read_multinomial(fitted: _Fitted) -> _State:
    return _State(_discrete_options(fitted), *_read_counts(fitted))


def _read_complement(fitted: _Fitted) -> _State:
    """Read a ComplementNB, which leaves out whatever prior it has."""
    options = {**_discrete_options(fitted), "priors": "uniform", "norm": bool(fitted.estimator.norm)}
    return _State(options, *_read_counts(fitted))


def _read_bernoulli(fitted: _Fitted) -> _State:
    estimator, _, n, names = fitted
    on = _checked("feature_count_", estimator.feature_count_)
    if (on > n[:, None] * (1.0 + 1e-9)).any():
        raise ValueError("feature_count_: above class_count_, so not all the values learned were 0 and 1")
    threshold = 0.0 if estimator.binarize is None else float(estimator.binarize)
    events = np.full(len(names), _events(n).sum())
    return _State(
        {**_discrete_options(fitted), "binarize": threshold},
        {"features": names},
        [np.minimum(on, n[:, None]).T, events, n],
    )


def _read_categorical(fitted: _Fitted, categories: list[list[Any]] | None = None) -> _State:
    """Read a CategoricalNB; without `categories`, the codes themselves are the categories."""
    counts = [_checked("category_count_", count) for count in fitted.estimator.category_count_]
    if categories is None:
        categories = [list(range(count.shape[1])) for count in counts]
    held = [(count.sum(axis=1), _events(count).sum(axis=1)) for count in counts]
    cells = np.array([np.stack(pair, axis=1) for pair in held])
    values = np.concatenate([np.stack([count, _events(count)], axis=2).transpose(1, 0, 2) for count in counts])
    known = np.maximum(values[:, :, 1].sum(axis=1), 1.0)  # scikit-learn counts a code that never came as a category
    arrays: list[Array] = [cells, np.maximum(cells[:, :, 1].sum(axis=1), 1.0), values, known]
    return _State(_discrete_options(fitted), {"features": fitted.names, "values": categories}, arrays)


def _read_encoded(encoder: Any, fitted: _Fitted) -> _State:
    if encoder.min_frequency is not None or encoder.max_categories is not None:
        raise TypeError("OrdinalEncoder: min_frequency and max_categories put several categories into one")
    categories = []
    for name, all_of_them, count in zip(
        fitted.names, encoder.categories_, fitted.estimator.category_count_, strict=True
    ):
        if count.shape[1] > len(all_of_them):
            raise TypeError(f"feature {name!r}: the encoder's codes for missing or unknown values are no categories")
        categories.append([_category(name, value) for value in all_of_them.tolist()[: count.shape[1]]])
    return _read_categorical(fitted, categories)


def _category(name: Any, value: Any) -> Any:
    plain = plain_category(value)
    if plain is None:
        raise TypeError(f"feature {name!r}: a missing value is no category")
    return plain
