"""Faults that other libraries had, each with the answer of exact arithmetic: none of them is ours."""

from __future__ import annotations

from typing import Any

import pytest
import reference_learner
from cases.run_cases import CASES, Runner

import streamnb

every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])


@every_case
def test_the_learners_answer_as_exact_arithmetic_does(case: dict[str, Any]) -> None:
    Runner(streamnb, case).run()


@every_case
def test_the_oracle_answers_as_the_case_says(case: dict[str, Any]) -> None:
    Runner(reference_learner, case).run()
