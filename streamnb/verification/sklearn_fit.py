"""scikit-learn's fit of the same events, where it has such a model. scikit-learn is optional."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from streamnb.verification.comparing import ROUNDING, Row, note_answers, off, without_smoothing
from streamnb.verification.parts import ALONE, PartsReader
from streamnb.verification.reference import Reference

if TYPE_CHECKING:
    from streamnb.events import Event
    from streamnb.learners.model import Model

MOST_VALUES = 20_000_000
"""Values; of more the events are not kept, as scikit-learn needs them all at once."""
COUNTS = 1e-9


class SklearnFit:
    """Keeps the events as a matrix while it is small enough; `why_not` says why there is no comparison."""

    def __init__(self, model: "Model") -> None:
        self._model = model
        self._reader = PartsReader(model.kind, model.options)
        self._columns: dict[Any, int] = {}
        self._rows: list[dict[int, Any]] = []
        self._labels: list[Any] = []
        self._weights: list[float] = []
        self._n_values = 0
        self.why_not = _why_not(model)

    def take(self, event: "Event") -> None:
        """Keep one learned event."""
        if self.why_not or event.w == 0:
            return
        row = self._numbers(event.x)
        self._n_values += len(row)
        self._rows.append(row)
        self._labels.append(event.y)
        self._weights.append(event.w)
        size = len(self._rows) * len(self._columns) if self._is_dense else self._n_values
        if size > MOST_VALUES:
            self._give_up(f"it needs all events in memory, and these are more than {MOST_VALUES} values")

    def rows(self, reference: Reference, sample: Sequence[Mapping[str, Any]]) -> list[Row]:
        """Fit, and compare counts, means, variances, epsilon and answers; [] with `why_not` set if that cannot be."""
        if not self.why_not and not self._columns:
            self._give_up("nothing was learned")
        if not self.why_not and self._is_dense and any(len(row) < len(self._columns) for row in self._rows):
            self._give_up("values are missing, for which it has no place")
        if not self.why_not and set(self._model.classes) != set(self._labels):
            self._give_up("there are classes without events, which it does not know")
        if self.why_not:
            return []
        found = self._gaussian() if self._model.kind == "gaussian" else self._discrete()
        return [row for row in [*found, *self._answers(reference, sample)] if row.compared]

    @property
    def _is_dense(self) -> bool:
        return self._model.kind in ("gaussian", "categorical")

    def _give_up(self, why: str) -> None:
        self.why_not = why
        self._rows, self._labels, self._weights = [], [], []

    def _numbers(self, x: Mapping[str, Any]) -> dict[int, Any]:
        parts = self._reader.read(x)
        match self._model.kind:
            case "gaussian":
                values: Mapping[Any, Any] = parts.gaussian
            case "bernoulli":
                values = parts.bernoulli
            case "categorical":
                values = parts.categorical
            case _:
                values = parts.counts.get(ALONE, {})
        return {self._columns.setdefault(name, len(self._columns)): value for name, value in values.items()}

    def _gaussian(self) -> list[Row]:
        from sklearn.naive_bayes import GaussianNB

        X, y, w = self._matrix(self._rows), np.array(self._labels), np.array(self._weights)
        raw = GaussianNB(var_smoothing=0.0).fit(X, y, sample_weight=w)
        self._estimator = GaussianNB(var_smoothing=self._model.options["var_smoothing"], priors=self._priors())
        self._estimator.fit(X, y, sample_weight=w)
        means, variances = Row("means", ROUNDING, "mean or std"), Row("variances", ROUNDING, "variance")
        for line in without_smoothing(self._model).likelihood_table():
            for c, label in enumerate(raw.classes_):
                numbers, f = line.numbers[str(label)], self._columns[line.feature]
                mean, variance = float(raw.theta_[c, f]), float(raw.var_[c, f])
                where = f"{line.feature}, class {label}"
                scale = max(abs(mean), math.sqrt(variance))
                means.note(off(numbers["mean"], mean, scale), lambda where=where: where)  # type: ignore[misc]
                variances.note(off(numbers["variance"], variance, variance), lambda where=where: where)  # type: ignore[misc]
        epsilon = Row("epsilon", ROUNDING, "epsilon")
        if (w == 1.0).all():  # its epsilon does not know of weights
            due = float(self._estimator.epsilon_)
            epsilon.note(off(self._model.blocks[0].epsilon(), due, due), lambda: "")  # type: ignore[attr-defined]
        return [means, variances, epsilon]

    def _discrete(self) -> list[Row]:
        from sklearn import naive_bayes

        namesake = getattr(naive_bayes, type(self._model).__name__)
        options = {"alpha": float(self._model.options["alpha"]), "class_prior": self._priors()}
        if self._model.kind == "bernoulli":
            options["binarize"] = None
        if self._model.kind == "complement":
            options["norm"] = self._model.options["norm"]
        self._categories: list[dict[Any, int]] = [{} for _ in self._columns]
        y, w = np.array(self._labels), np.array(self._weights)
        self._estimator = namesake(**options).fit(self._matrix(self._rows), y, sample_weight=w)
        row = Row("counts", COUNTS, "count")
        for line in self._model.likelihood_table():
            for c, label in enumerate(self._estimator.classes_):
                found, due = line.numbers[str(label)]["count"], self._count(line.feature, line.value, c)
                row.note(off(found, due, due), lambda line=line, label=label: f"{line.feature}, class {label}")  # type: ignore[misc]
        return [row]

    def _count(self, feature: Any, value: Any, c: int) -> float:
        f = self._columns[feature]
        if self._model.kind == "categorical":
            return float(self._estimator.category_count_[f][c, self._categories[f][type(value) is bool, value]])
        counts = self._estimator.feature_count_
        return float(counts[:, f].sum() - counts[c, f] if self._model.kind == "complement" else counts[c, f])

    def _answers(self, reference: Reference, sample: Sequence[Mapping[str, Any]]) -> list[Row]:
        """The model's answers beside scikit-learn's, in the units of the exact fit's terms."""
        options = self._model.options
        if options.get("ddof") or (self._model.kind == "gaussian" and set(self._weights) != {1.0}):
            return []
        rows = [row for x in sample if len(row := self._numbers(x)) == len(self._columns) or not self._is_dense]
        if not rows:
            return []
        joints = self._estimator.predict_joint_log_proba(self._matrix(rows))
        if self._model.kind == "complement" and len(self._model.classes) > 1:  # it leaves the prior out
            joints = joints + np.log(self._priors())
        joint_row = Row("joint log-likelihoods", ROUNDING, "sum of its terms' magnitudes")
        posterior_row = Row("posteriors", ROUNDING, "largest joint")
        whole = [x for x in sample if len(self._numbers(x)) == len(self._columns) or not self._is_dense]
        for place, (x, logs) in enumerate(zip(whole, joints, strict=True)):
            exact = reference.joint(x)
            due = {
                label: type(exact[label])(float(log), exact[label].size)
                for label, log in zip(map(str, self._estimator.classes_), logs, strict=True)
            }
            found = self._model.joint_log_likelihood_one(x), self._model.predict_proba_one(x)
            note_answers(joint_row, posterior_row, *found, due, place)
        return [joint_row, posterior_row]

    def _priors(self) -> list[float]:
        """The model's own priors: how they come about is compared with the exact fit."""
        priors = np.exp(list(self._model.class_log_prior().values()))
        return list(priors / priors.sum())

    def _matrix(self, rows: Sequence[Mapping[int, Any]]) -> Any:
        """The events by columns: dense where every row has them all, else sparse."""
        if self._is_dense:
            return np.array([[self._plain(f, row[f]) for f in range(len(self._columns))] for row in rows])
        from scipy.sparse import csr_matrix

        starts = np.cumsum([0, *map(len, rows)])
        columns = np.fromiter((f for row in rows for f in row), np.int64, int(starts[-1]))
        values = np.fromiter((float(v) for row in rows for v in row.values()), np.float64, int(starts[-1]))
        return csr_matrix((values, columns, starts), (len(rows), len(self._columns)))

    def _plain(self, f: int, value: Any) -> float | int:
        if self._model.kind == "gaussian":
            return float(value)
        codes = self._categories[f]
        return codes.setdefault(value, len(codes))


def _why_not(model: "Model") -> str:
    """Why scikit-learn has nothing for such a model, "" if it has."""
    options = model.options
    if model.kind == "mixed":
        return "it has no model of features of several kinds"
    if options["half_life"] is not None:
        return "its models never forget"
    if options.get("alpha") == 0 or options.get("var_smoothing") == 0:
        return "it does not take the limit of no smoothing"
    if options.get("unseen") == "smooth":
        return "it has no place for what was never learned (unseen: smooth)"
    if options.get("weighting", "tf") != "tf":
        return f"it has no weighting {options['weighting']}"
    try:
        import sklearn.naive_bayes  # noqa: F401  # whether it is there
    except ImportError:
        return "it is not installed: pip install 'streamnb[sklearn]'"
    return ""
