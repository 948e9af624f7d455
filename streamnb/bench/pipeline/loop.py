"""`python -m streamnb.bench.pipeline.loop PLAN`: the null loop or the user's loop, in a process of its own."""

import json
import signal
import sys
from typing import Any

from streamnb.bench.pipeline.plan import Answer, Plan
from streamnb.bench.pipeline.streams import stream_named


def json_module() -> Any:
    """Return orjson where it is installed, else json."""
    try:
        import orjson  # type: ignore[import-not-found, unused-ignore]  # optional, for this comparison only
    except ImportError:
        return json
    return orjson


def users_answer(stream: str, parse: Any) -> Answer:
    """Return what the user's loop does with an event: predict, then learn it if it is labelled, else answer."""
    model = stream_named(stream).user()
    loads, dumps = parse.loads, parse.dumps

    def answer(value: bytes) -> bytes | None:
        event = loads(value)
        x, y = event["features"], event.get("label")
        probabilities = model.predict_proba_one(x)
        if y is not None:
            model.learn_one(x, y)
            return None
        label = max(probabilities, key=probabilities.get) if probabilities else None
        said = dumps({"id": event["id"], "label": label, "probabilities": probabilities})
        return said if isinstance(said, bytes) else said.encode()

    return answer


def main() -> None:
    """Run until SIGTERM."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    plan = Plan(**json.loads(sys.argv[1]))
    # kafka-python goes with json, confluent with orjson: the pairs that people use
    parse = json if plan.client == "kafka-python" else json_module()
    answer = users_answer(plan.stream, parse) if plan.stream else None
    if plan.client == "confluent":
        from streamnb.bench.pipeline import confluent as client
    else:
        from streamnb.bench.pipeline import kafka_python as client  # type: ignore[no-redef]
    client.run(plan, answer)


if __name__ == "__main__":
    main()
