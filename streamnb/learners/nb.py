"""The five classic learners: a class prior and one likelihood block each."""

from collections.abc import Mapping, Sequence
from typing import Any

from river.base import tags

from streamnb.learners import options
from streamnb.learners.bernoulli import BernoulliBlock
from streamnb.learners.block import Block, Entries
from streamnb.learners.categorical import CategoricalBlock
from streamnb.learners.complement import ComplementBlock
from streamnb.learners.counts import WEIGHTINGS, CountsBlock
from streamnb.learners.gaussian import GaussianBlock
from streamnb.learners.kernels.layout import REFUSED
from streamnb.learners.model import Model
from streamnb.learners.tables import Buffer
from streamnb.learners.values import LARGEST_WEIGHT, Label, as_items

Priors = str | Mapping[Label, float]
UNSEEN = ("ignore", "smooth")


class SingleBlock(Model):
    """A model of one block, which every feature belongs to."""

    def __init__(self, given: Mapping[str, Any], block: Block) -> None:
        super().__init__(given, [block])

    def _bind(self) -> None:
        (self._block,) = self.blocks
        self._buffer = Buffer()

    def encode(self, x: Any) -> list[Entries]:
        return [self._block.encode(as_items(x))]

    def write(self, buffers: Sequence[Buffer], x: Any) -> Sequence[int] | None:
        if type(x) is not dict:
            return None
        n = self._block.write_event(buffers[0], x)
        return (n,) if n >= 0 and self._block.are_small(x.values()) else None

    def learn_one(self, x: Any, y: Any, w: float = 1.0, t: float | None = None) -> None:
        """Learn one event of weight `w` >= 0 at event time `t` (seconds; None: the latest learned).

        Raise ValueError or TypeError for what cannot be used; the model is then as it was.
        """
        if type(x) is dict and type(w) is float and t is None and not self.forgets:
            label = self.known_label(y)
            n = self._block.write_event(self._buffer, x) if label >= 0 and 0.0 < w <= LARGEST_WEIGHT else -1
            if n >= 0 and self._block.learn_one(self._buffer, n, self.class_table, self.order, label, w):
                self.version += 1
                return
        super().learn_one(x, y, w, t)

    def _read_one(self, x: Any) -> int:
        block, buffer = self._block, self._buffer
        read = self.forgetting.read_factor() if self.forgets else 1.0
        n = block.write_event(buffer, x) if type(x) is dict else -1
        if n >= 0:
            best = block.predict_one(buffer, n, self.class_table, self.order, self._prior, read, self._one_sums)
            if best != REFUSED:
                return best
        block.push(buffer, 0, block.encode(as_items(x)), learn=False)
        n = buffer.used
        buffer.clear()
        return block.predict_one(buffer, n, self.class_table, self.order, self._prior, read, self._one_sums)


class GaussianNB(SingleBlock):
    """Naive Bayes for real numbers, each normally distributed within a class.

    `priors`: "empirical", "uniform" or a mapping label -> probability. `var_smoothing` times the largest variance
    of any feature is added to every variance; 0 is the limit. `ddof` is taken off a cell's weight when its variance
    is read. `classes` are known before they are seen. `half_life`: seconds of event time in which an event loses
    half its weight. A feature that is absent, None or NaN contributes nothing.
    """

    kind = "gaussian"

    def __init__(
        self,
        priors: Priors = "empirical",
        var_smoothing: float = 1e-9,
        ddof: float = 0,
        classes: Sequence[Label] | None = None,
        half_life: float | None = None,
    ) -> None:
        self.priors, self.var_smoothing, self.ddof = priors, var_smoothing, ddof
        block = GaussianBlock(
            options.number("var_smoothing", var_smoothing, allowed="numbers from 0 to 1e120"),
            options.number("ddof", ddof, allowed="numbers from 0 to 1e120"),
        )
        given = {
            "priors": priors,
            "var_smoothing": var_smoothing,
            "ddof": ddof,
            "classes": classes,
            "half_life": half_life,
        }
        super().__init__(given, block)


class MultinomialNB(SingleBlock):
    """Naive Bayes for counts, such as a document's words.

    `alpha` is added to every count when it is read; 0 is the limit. `smooth_priors` adds it to the classes' counts
    too. A token that was never learned is ignored, or with `unseen="smooth"` takes one more slot of every
    denominator. `weighting` applies when predicting: "tf", "log1p" = log(1 + f) or "tfidf" = f log(N / df); what is
    stored stays raw. A feature that is absent or None is 0. `priors`, `classes` and `half_life` as in GaussianNB.
    """

    kind = "multinomial"

    def __init__(
        self,
        alpha: float = 1.0,
        priors: Priors = "empirical",
        smooth_priors: bool = False,
        unseen: str = "ignore",
        weighting: str = "tf",
        classes: Sequence[Label] | None = None,
        half_life: float | None = None,
    ) -> None:
        self.alpha, self.priors, self.smooth_priors = alpha, priors, smooth_priors
        self.unseen, self.weighting = unseen, weighting
        block = CountsBlock(
            options.smoothing(alpha),
            options.choice("unseen", unseen, UNSEEN) == "smooth",
            options.choice("weighting", weighting, WEIGHTINGS),
        )
        given = {
            "alpha": alpha,
            "priors": priors,
            "smooth_priors": smooth_priors,
            "unseen": unseen,
            "weighting": weighting,
            "classes": classes,
            "half_life": half_life,
        }
        super().__init__(given, block)

    def _more_tags(self) -> set[str]:
        return {tags.POSITIVE_INPUT}


class ComplementNB(SingleBlock):
    """Naive Bayes for counts that scores each class by what all the others hold (Rennie et al. 2003).

    `norm` divides a class's weights by the sum of their magnitudes. The prior counts as in the other learners.
    Everything else is as in MultinomialNB.
    """

    kind = "complement"

    def __init__(
        self,
        alpha: float = 1.0,
        norm: bool = False,
        priors: Priors = "empirical",
        smooth_priors: bool = False,
        classes: Sequence[Label] | None = None,
        half_life: float | None = None,
    ) -> None:
        self.alpha, self.norm, self.priors, self.smooth_priors = alpha, norm, priors, smooth_priors
        block = ComplementBlock(options.smoothing(alpha), options.flag("norm", norm))
        given = {
            "alpha": alpha,
            "norm": norm,
            "priors": priors,
            "smooth_priors": smooth_priors,
            "classes": classes,
            "half_life": half_life,
        }
        super().__init__(given, block)

    def _more_tags(self) -> set[str]:
        return {tags.POSITIVE_INPUT}


class BernoulliNB(SingleBlock):
    """Naive Bayes for features that are on (above `binarize`) or off; absent features count as off.

    `alpha`, `smooth_priors`, `priors`, `classes` and `half_life` as in MultinomialNB.
    """

    kind = "bernoulli"

    def __init__(
        self,
        alpha: float = 1.0,
        binarize: float = 0.0,
        priors: Priors = "empirical",
        smooth_priors: bool = False,
        classes: Sequence[Label] | None = None,
        half_life: float | None = None,
    ) -> None:
        self.alpha, self.binarize, self.priors, self.smooth_priors = alpha, binarize, priors, smooth_priors
        block = BernoulliBlock(options.smoothing(alpha), options.threshold(binarize))
        given = {
            "alpha": alpha,
            "binarize": binarize,
            "priors": priors,
            "smooth_priors": smooth_priors,
            "classes": classes,
            "half_life": half_life,
        }
        super().__init__(given, block)


class CategoricalNB(SingleBlock):
    """Naive Bayes for categories: strings, booleans and finite numbers, all told apart (but 1.0 is 1).

    A category that was never learned is ignored, or with `unseen="smooth"` takes one more slot of every denominator.
    A feature that is absent, None or NaN contributes nothing. Everything else is as in MultinomialNB.
    """

    kind = "categorical"

    def __init__(
        self,
        alpha: float = 1.0,
        unseen: str = "ignore",
        priors: Priors = "empirical",
        smooth_priors: bool = False,
        classes: Sequence[Label] | None = None,
        half_life: float | None = None,
    ) -> None:
        self.alpha, self.unseen, self.priors, self.smooth_priors = alpha, unseen, priors, smooth_priors
        block = CategoricalBlock(options.smoothing(alpha), options.choice("unseen", unseen, UNSEEN) == "smooth")
        given = {
            "alpha": alpha,
            "unseen": unseen,
            "priors": priors,
            "smooth_priors": smooth_priors,
            "classes": classes,
            "half_life": half_life,
        }
        super().__init__(given, block)
