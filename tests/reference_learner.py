"""The oracle behind the learners' own interface: it remembers every event and fits them all at each answer.

So a case written for the learners can be put to the oracle too. Refuses what the contract refuses.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

from reference import Event, Fitted
from reference_events import parts_of, plain


class ReferenceNB:
    kind: ClassVar[str]

    def __init__(self, *features: Mapping[str, Any], **options: Any) -> None:
        self.options = {**options, **({"features": features[0]} if features else {})}
        priors = options.get("priors")
        if isinstance(priors, Mapping) and (abs(sum(priors.values()) - 1) > 1e-9 or min(priors.values()) < 0):
            raise ValueError(f"priors {priors!r} are not probabilities that sum to 1")
        self.events: list[Event] = []

    def fitted(self) -> Fitted:
        return Fitted(self.kind, self.events, **self.options)

    def checked(self, x: Any, y: Any, w: Any, t: Any) -> Event:
        y, w = plain(y), plain(w)
        if type(y) not in (str, int, bool):
            raise TypeError(f"label {y!r}")
        if type(w) not in (int, float) or not 0 <= w <= 1e60 or math.isnan(w):
            raise ValueError(f"weight {w!r}")
        parts_of(self.kind, self.options, x)
        priors = self.options.get("priors")
        if isinstance(priors, Mapping) and y not in priors:
            raise ValueError(f"label {y!r} has no prior")
        return Event(dict(x), y, w, t)

    def learn_one(self, x: Any, y: Any, w: Any = 1.0, t: Any = None) -> None:
        event = self.checked(x, y, w, t)
        if event.w > 0:
            self.events.append(event)

    def learn_many(self, rows: Sequence[Any], labels: Sequence[Any]) -> None:
        for x, y in zip(rows, labels, strict=True):
            self.learn_one(x, y)

    def unlearn_one(self, x: Any, y: Any, w: Any = 1.0) -> None:
        for event in self.events:
            if (event.x, event.y, event.w) == (x, y, w):
                self.events.remove(event)
                return
        raise ValueError("never learned")

    def merge(self, other: Self) -> None:
        self.events += other.events

    def joint_log_likelihood_one(self, x: Any) -> dict[Any, float]:
        return {label: float(log) for label, log in self.fitted().joint(x).items()}

    def predict_proba_one(self, x: Any) -> dict[Any, float]:
        return {label: float(p) for label, p in self.fitted().proba(x).items()}

    def predict_one(self, x: Any) -> Any:
        joint = self.fitted().joint(x)
        return min(joint, key=lambda label: (-joint[label], repr(label)), default=None)

    def to_bytes(self) -> bytes:
        return pickle.dumps((self.options, self.events))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        options, events = pickle.loads(data)
        features = [options.pop("features")] if "features" in options else []
        model = cls(*features, **options)
        model.events = events
        return model


class GaussianNB(ReferenceNB):
    kind = "gaussian"


class MultinomialNB(ReferenceNB):
    kind = "multinomial"


class ComplementNB(ReferenceNB):
    kind = "complement"


class BernoulliNB(ReferenceNB):
    kind = "bernoulli"


class CategoricalNB(ReferenceNB):
    kind = "categorical"


class MixedNB(ReferenceNB):
    kind = "mixed"
