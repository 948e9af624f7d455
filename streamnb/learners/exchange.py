"""Models to fitted scikit-learn estimators."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from streamnb.learners.gaussian import GaussianBlock
from streamnb.learners.kernels.gaussian import ANCHOR, M2, MEAN, MEAN_LOW, N
from streamnb.learners.kernels.types import Array, Floats
from streamnb.learners.values import Label, sort_key

if TYPE_CHECKING:
    from streamnb.learners.model import Model

EXACT_INTEGERS = 2**53


def to_sklearn(model: "Model") -> Any:
    """Return a fitted estimator that answers as the model does, its columns in the order of `model.features`.

    CategoricalNB becomes a Pipeline with an OrdinalEncoder, `weighting="log1p"` one with a FunctionTransformer. Raise
    TypeError for options, and ValueError for a state, that scikit-learn has nothing for. What partial_fit adds is
    scikit-learn's own arithmetic: smoothed priors stay as they are, and values that were missing count as their mean.
    """
    sklearn = sklearn_modules()
    _check_options(model)
    labels = _label_array(model.classes)
    if model.n_features == 0:
        raise ValueError("the model knows no feature yet; a scikit-learn estimator has at least one")
    export = {
        "gaussian": _gaussian,
        "multinomial": _multinomial,
        "complement": _complement,
        "bernoulli": _bernoulli,
        "categorical": _categorical,
    }[model.kind]
    return export(model, sklearn, {"classes_": labels, "class_count_": _class_weights(model)})


def sklearn_modules() -> Any:
    """Import scikit-learn, which is optional, and return it."""
    try:
        import sklearn.naive_bayes
        import sklearn.pipeline
        import sklearn.preprocessing
    except ImportError as missing:
        raise ImportError("scikit-learn is not installed; pip install streamnb[sklearn]") from missing
    return sklearn


def _check_options(model: "Model") -> None:
    """Refuse what no scikit-learn estimator does."""
    options, name = model.options, type(model).__name__
    if model.kind == "mixed":
        raise TypeError("MixedNB has no counterpart in scikit-learn, whose learners have features of one kind")
    if model.forgets:
        raise TypeError(f"{name}(half_life={options['half_life']!r}): scikit-learn's learners never forget")
    if options.get("weighting") == "tfidf":
        raise TypeError(f'{name}(weighting="tfidf"): scikit-learn weighs what it learns, not what it predicts')
    if options.get("unseen") == "smooth":
        raise TypeError(f'{name}(unseen="smooth"): scikit-learn has no place for what was never learned')
    if model.kind == "complement" and options["priors"] != "uniform":
        raise TypeError('ComplementNB: scikit-learn leaves the prior out, as priors="uniform" does: ask for it')
    if options.get("binarize", 0.0) < 0.0:
        raise TypeError(f"{name}(binarize={options['binarize']!r}): scikit-learn's threshold is 0 or more")


def _label_array(labels: Sequence[Label]) -> Array:
    if len({type(label) for label in labels}) > 1:
        raise TypeError(f"labels {labels!r}: those of a scikit-learn estimator are all of one type")
    array = np.array(labels)
    if labels and (array.dtype.kind not in "biU" or array.tolist() != labels):
        raise TypeError(f"labels {labels!r}: a numpy array cannot hold them all")
    return array


def _class_weights(model: "Model") -> Floats:
    return np.array(list(model.class_count.values()))


def _fixed_priors(model: "Model") -> Floats | None:
    """Return the probabilities that more events do not change, None if they are the empirical ones."""
    priors, alpha = model.options["priors"], model.options.get("alpha")
    n = _class_weights(model)
    if isinstance(priors, Mapping):
        return np.array([priors[label] for label in model.classes])
    if priors == "uniform":
        return np.full(len(n), 1.0 / len(n))
    if model.options.get("smooth_priors") and alpha:
        smoothed: Floats = (n + alpha) / (n.sum() + alpha * len(n))
        return smoothed
    return None


def _with(estimator: Any, names: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
    """Give an estimator its fitted attributes."""
    for name, value in attributes.items():
        setattr(estimator, name, value)
    estimator.n_features_in_ = len(names)
    if all(type(name) is str for name in names):
        estimator.feature_names_in_ = np.array(names, object)
    return estimator


def _gaussian(model: "Model", sklearn: Any, known: dict[str, Any]) -> Any:
    block = model.blocks[0]
    assert isinstance(block, GaussianBlock)
    names, (cells,) = block.dump(model.order)
    read = np.where(cells[:, 1:, N, None] > 0.0, cells[:, 1:], cells[:, :1])  # never seen: as all classes together
    n, ddof = read[:, :, N], block.ddof
    spread = np.divide(read[:, :, M2], n - ddof, out=np.zeros_like(n), where=n > ddof)
    variance = spread.T + block.epsilon()
    if not (variance > 0.0).all():
        c, f = (int(place) for place in np.argwhere(~(variance > 0.0))[0])
        raise ValueError(
            f"feature {names['features'][f]!r} has variance 0 with label {model.classes[c]!r}, and epsilon is 0: "
            "scikit-learn divides by it"
        )
    fixed, counts = _fixed_priors(model), known["class_count_"]
    return _with(
        sklearn.naive_bayes.GaussianNB(priors=fixed, var_smoothing=block.var_smoothing),
        names["features"],
        {
            **known,
            "class_prior_": counts / counts.sum() if fixed is None else fixed,
            "epsilon_": block.epsilon(),
            "theta_": (read[:, :, ANCHOR] + (read[:, :, MEAN] + read[:, :, MEAN_LOW])).T.copy(),
            "var_": variance,
        },
    )


def _discrete(model: "Model", namesake: Any, **options: Any) -> Any:
    """Return an estimator that is not fitted yet, with the options that all but GaussianNB have."""
    uniform = model.options["priors"] == "uniform"
    priors = None if uniform else _fixed_priors(model)
    return namesake(alpha=float(model.options["alpha"]), fit_prior=not uniform, class_prior=priors, **options)


def _log_prior(model: "Model") -> Floats:
    return np.array(list(model.class_log_prior().values()))


def _multinomial(model: "Model", sklearn: Any, known: dict[str, Any]) -> Any:
    names, counts = _token_counts(model)
    with np.errstate(divide="ignore", invalid="ignore"):
        smoothed = counts + model.options["alpha"]
        log = np.log(smoothed) - np.log(smoothed.sum(axis=1, keepdims=True))
    _check_finite(log, model.classes, names)
    estimator = _with(
        _discrete(model, sklearn.naive_bayes.MultinomialNB),
        names,
        {**known, "class_log_prior_": _log_prior(model), "feature_count_": counts, "feature_log_prob_": log},
    )
    if model.options["weighting"] == "tf":
        return estimator
    weighting = sklearn.preprocessing.FunctionTransformer(np.log1p, accept_sparse=True)
    return sklearn.pipeline.make_pipeline(_with(weighting, names, {}), estimator)


def _token_counts(model: "Model") -> tuple[list[Any], Floats]:
    names, (counts, *_) = model.blocks[0].dump(model.order)
    return names["tokens"][0], counts.T.astype(np.float64)


def _complement(model: "Model", sklearn: Any, known: dict[str, Any]) -> Any:
    names, counts = _token_counts(model)
    norm = model.options["norm"]
    with np.errstate(divide="ignore", invalid="ignore"):
        others = _others(counts) + model.options["alpha"]
        log = np.log(others / others.sum(axis=1, keepdims=True))
    _check_finite(log, model.classes, names)
    magnitudes = log.sum(axis=1, keepdims=True)
    weights = np.divide(log, magnitudes, out=np.zeros_like(log), where=magnitudes < 0.0) if norm else -log
    return _with(
        _discrete(model, sklearn.naive_bayes.ComplementNB, norm=norm),
        names,
        {
            **known,
            "class_log_prior_": _log_prior(model),
            "feature_all_": counts.sum(axis=0),
            "feature_count_": counts,
            "feature_log_prob_": weights,
        },
    )


def _others(counts: Floats) -> Floats:
    """Return, for each class, the sum over all others: no subtraction, so nothing cancels."""
    before, after = np.zeros_like(counts), np.zeros_like(counts)
    before[1:] = np.cumsum(counts[:-1], axis=0)
    after[:-1] = np.cumsum(counts[:0:-1], axis=0)[::-1]
    return before + after


def _bernoulli(model: "Model", sklearn: Any, known: dict[str, Any]) -> Any:
    names, (on, _, n) = model.blocks[0].dump(model.order)
    on = on.astype(np.float64)
    alpha = model.options["alpha"]
    with np.errstate(divide="ignore", invalid="ignore"):
        log = np.log(on.T + alpha) - np.log(n[:, None] + 2.0 * alpha)
        log_off = np.log(1.0 - np.exp(log))  # as scikit-learn does when it predicts
    _check_finite(log + log_off, model.classes, names["features"])
    return _with(
        _discrete(model, sklearn.naive_bayes.BernoulliNB, binarize=model.options["binarize"]),
        names["features"],
        {**known, "class_log_prior_": _log_prior(model), "feature_count_": on.T.copy(), "feature_log_prob_": log},
    )


def _categorical(model: "Model", sklearn: Any, known: dict[str, Any]) -> Any:
    names, (_, _, values, _) = model.blocks[0].dump(model.order)
    features, alpha = names["features"], model.options["alpha"]
    ends = np.cumsum([len(categories) for categories in names["values"]])
    counts = [part.T.copy() for part in np.split(values[:, :, 0], ends[:-1])]
    logs = []
    for name, count in zip(features, counts, strict=True):
        with np.errstate(divide="ignore", invalid="ignore"):
            smoothed = count + alpha
            logs.append(np.log(smoothed) - np.log(smoothed.sum(axis=1, keepdims=True)))
        _check_finite(logs[-1], model.classes, [name] * count.shape[1])
    encoder = _encoder(sklearn, features, names["values"])
    estimator = _with(
        _discrete(model, sklearn.naive_bayes.CategoricalNB),
        range(len(features)),  # codes have no names
        {
            **known,
            "class_log_prior_": _log_prior(model),
            "category_count_": counts,
            "feature_log_prob_": logs,
            "n_categories_": np.array([count.shape[1] for count in counts], np.int64),
        },
    )
    return sklearn.pipeline.make_pipeline(encoder, estimator)


def _encoder(sklearn: Any, features: Sequence[Any], categories: Sequence[Sequence[Any]]) -> Any:
    arrays = [_category_array(name, some) for name, some in zip(features, categories, strict=True)]
    encoder = sklearn.preprocessing.OrdinalEncoder(categories=arrays)
    encoder.fit(np.array([[some[0] for some in categories]], object))
    return _with(encoder, features, {"categories_": arrays})  # the fit has made objects of numbers


def _category_array(name: Any, categories: Sequence[Any]) -> Array:
    if len({sort_key(value)[0] for value in categories}) > 1:
        raise ValueError(f"feature {name!r} has the categories {categories!r}: scikit-learn's are all of one type")
    if all(type(value) in (int, float) and abs(value) <= EXACT_INTEGERS for value in categories):
        return np.array(categories, np.float64)
    array = np.empty(len(categories), object)
    array[:] = categories
    return array


def _check_finite(logs: Floats, labels: Sequence[Label], names: Sequence[Any]) -> None:
    """Refuse the logarithm of 0, which scikit-learn multiplies by 0."""
    if not np.isfinite(logs).all():
        c, f = (int(place) for place in np.argwhere(~np.isfinite(logs))[0])
        raise ValueError(
            f"feature {names[f]!r} has probability 0 with label {labels[c]!r}: scikit-learn's answers would be NaN, "
            "not the limit; a larger alpha helps"
        )
