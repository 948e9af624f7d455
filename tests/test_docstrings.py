"""Every public name says what it does, what it is given, and how it fails."""

import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

import streamnb
from streamnb.cli import app
from streamnb.learners.explaining import Explanation

LEARNERS = [getattr(streamnb, name) for name in streamnb.__all__]
API = [
    *("learn_one", "unlearn_one", "predict_one", "predict_proba_one", "joint_log_likelihood_one", "explain_one"),
    *("learn_many", "predict_many", "predict_proba_many", "joint_log_likelihood_many"),
    *("predict_learn_many", "predict_proba_learn_many", "merge", "__add__", "copy", "to_bytes", "from_bytes"),
    *("to_sklearn", "from_sklearn", "classes", "features", "class_count", "n_events", "n_features"),
    *("class_log_prior", "likelihood_table"),
]
"""What the README tells of; all else is for the engine."""
REFUSES = {name for name in API if re.match(r"(un)?learn|predict|joint|explain|merge|__add__|from_|to_sklearn", name)}


def said(member: Any) -> str:
    return inspect.getdoc(member.fget if isinstance(member, property) else member) or ""


@pytest.mark.parametrize("name", API)
def test_a_method_says_what_it_does_what_shapes_it_takes_and_what_it_raises(name: str) -> None:
    for learner in LEARNERS:
        text = said(member(learner, name))
        assert text.endswith("."), f"{learner.__name__}.{name}: {text!r}"
        if name in REFUSES:
            assert re.search(r"\b[Rr]aise|as `\w+` does", text), f"{name} does not say what it raises: {text!r}"
        if name.endswith("_many"):
            assert "n_events," in text, f"{name} does not say its shapes: {text!r}"


def member(learner: type, name: str) -> Any:
    """The method or property; class methods as they are called."""
    found = inspect.getattr_static(learner, name)
    return found if isinstance(found, property) else getattr(learner, name)


@pytest.mark.parametrize("learner", LEARNERS)
def test_a_learner_explains_every_option_or_says_where_it_is_explained(learner: type) -> None:
    text = said(learner)
    for reference in re.findall(r"as in (\w+NB)", text):
        text += said(getattr(streamnb, reference)) + said(streamnb.GaussianNB)
    if "those of the learners for each kind" in text:
        text += "".join(map(said, LEARNERS))
    options = list(inspect.signature(learner).parameters)
    assert [name for name in options if f"`{name}`" not in text and f"`{name}=" not in text] == []


def test_an_explanation_says_what_its_terms_are() -> None:
    assert "they add up to it" in said(Explanation)


def commands() -> Iterator[list[str]]:
    for name, command in get_command(app).commands.items():  # type: ignore[attr-defined]  # a group has them
        below = getattr(command, "commands", None)
        yield from ([name, inner] for inner in below) if below else [[name]]


@pytest.mark.parametrize("words", list(commands()), ids=" ".join)
def test_the_help_of_every_command_has_examples_that_its_options_allow(words: list[str]) -> None:
    done = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "200"})
    described, _, rest = done.stdout.partition("Examples:\n")
    examples = rest.partition("\n\n")[0]
    assert done.exit_code == 0
    assert described.count("\n") > 2
    assert f"streamnb {' '.join(words)}" in examples
    assert set(re.findall(r"--[a-z-]+", examples)) <= set(re.findall(r"--[a-z-]+", rest.partition("Options:")[2]))
    assert "--debug" in rest
