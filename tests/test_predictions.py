"""What is published of a batch: for each event one document, whatever the others are."""

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamnb.predictions import Answered, Asked, Explanation, Writer, sources
from streamnb.transport import Output, Partition

LOG = Partition("täglich%d", 3)
ID, N_EVENTS, LATE, ACTUAL, KEY = range(5)


def answered(
    *rows: tuple[Any, ...], best: list[int], table: Any, explanations: Sequence[Explanation | None]
) -> Answered:
    """Rows of id, number of events learned, whether late, label, key."""
    ids, n_events, late, actual, keys = ([row[column] for row in rows] for column in range(5))
    where = list(sources(LOG, range(17, 17 + len(rows))))
    asked = Asked(keys, where, [None] * len(rows), ids, actual, late, list(explanations))
    return Answered(asked, best, np.array(table), n_events)


def one(
    probabilities: dict[str, float],
    event_id: object = "e1",
    late: bool = False,
    actual: str | None = None,
    explanation: Explanation | None = None,
) -> Output:
    rows = answered(
        (event_id, 12, late, actual, b"k"),
        best=[0 if probabilities else -1],
        table=[list(probabilities.values())],
        explanations=[explanation],
    )
    (output,) = Writer("app", "1.2.3").outputs(list(probabilities), rows)
    return output


def document(probabilities: dict[str, float], **more: Any) -> Any:
    return json.loads(one(probabilities, **more).value or b"")


def test_a_prediction_says_what_the_model_holds_probable() -> None:
    output = one({"fraud": 0.75, "legit": 0.25})
    assert output.value == (
        b'{"id":"e1","label":"fraud","probabilities":{"fraud":0.75,"legit":0.25},'
        b'"model":{"app":"app","events":12,"version":"1.2.3"}}'
    )
    assert (output.sink, output.key) == ("predictions", b"k")
    assert list(output.headers) == [("streamnb.source", "täglich%d:3:17".encode())]


def test_an_event_without_an_id_is_named_by_its_source() -> None:
    assert document({"a": 1.0}, event_id=None)["id"] == "täglich%d:3:17"


@pytest.mark.parametrize("given_id", ["", 0, False, 1.5, -(2**80), "ä\0\U0001f600", [1, {"a": None}], {"a": "b"}])
def test_an_id_comes_back_as_it_was_given(given_id: object) -> None:
    assert document({"a": 1.0}, event_id=given_id)["id"] == given_id


def test_while_no_class_is_known_the_label_is_null_and_there_are_no_probabilities() -> None:
    found = document({})
    assert (found["label"], found["probabilities"]) == (None, {})


def test_explanation_late_and_actual_are_there_only_when_they_apply() -> None:
    plain = document({"a": 1.0})
    assert set(plain) == {"id", "label", "probabilities", "model"}
    full = document({"a": 1.0}, late=True, actual="b", explanation=[("x", 0.5), ("y", -math.inf)])
    assert full == plain | {
        "late": True,
        "actual": "b",
        "explanation": [{"feature": "x", "contribution": 0.5}, {"feature": "y", "contribution": None}],
    }


@given(st.dictionaries(st.text(), st.floats(0, 1)))
def test_probabilities_come_back_to_the_last_bit(probabilities: dict[str, float]) -> None:
    back = document(probabilities)["probabilities"]
    assert {label: p.hex() for label, p in back.items()} == {label: p.hex() for label, p in probabilities.items()}


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=5) | st.sampled_from(["%", "%b", '"', "a,b", "\n"])
shares = st.floats(0, 1) | st.sampled_from([0.0, 1.0, 1e-5, 1e-300, 5e-324, 1 / 3])
answer = st.tuples(
    st.one_of(
        st.none(), st.integers(), texts, st.lists(texts, max_size=2), st.floats(allow_nan=False, allow_infinity=False)
    ),
    st.integers(0, 2**60),
    st.booleans(),
    st.none() | texts,
    st.binary(max_size=3) | st.none(),
)


@given(st.data(), texts, st.lists(texts, max_size=4, unique=True), st.lists(answer, min_size=1, max_size=4))
def test_each_event_of_a_batch_gets_its_own_answer_of_the_classes_that_were_known(
    data: st.DataObject, app: str, labels: list[str], rows: list[tuple[Any, ...]]
) -> None:
    share = shares if data.draw(st.booleans()) else shares | st.just(math.nan)
    table = np.array([[data.draw(share) for _ in labels] for _ in rows]).reshape(len(rows), len(labels))
    best = [data.draw(st.integers(-1, len(labels) - 1)) for _ in rows]
    writer, no = Writer(app, "1%"), [None] * len(rows)
    writer.outputs(["z"], answered(*rows, best=[0] * len(rows), table=np.zeros((len(rows), 1)), explanations=no))
    for _ in range(2):  # with what was made for other classes, and for these
        outputs = writer.outputs(labels, answered(*rows, best=best, table=table, explanations=no))
    for i, (row, output) in enumerate(zip(rows, outputs, strict=True)):
        source = f"täglich%d:3:{17 + i}"
        assert (output.sink, output.key) == ("predictions", row[KEY])
        assert list(output.headers) == [("streamnb.source", source.encode())]
        expected = {
            "id": source if row[ID] is None else row[ID],
            "label": labels[best[i]] if best[i] >= 0 else None,
            "probabilities": {label: p for label, p in zip(labels, table[i].tolist(), strict=True) if p == p},
            "model": {"app": app, "events": row[N_EVENTS], "version": "1%"},
            **({"late": True} if row[LATE] else {}),
            **({} if row[ACTUAL] is None else {"actual": row[ACTUAL]}),
        }
        found = json.loads(output.value or b"")
        assert json.dumps(found) == json.dumps(expected)
