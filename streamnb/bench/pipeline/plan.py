"""What a loop that the daemon is compared with is told to do."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Plan:
    """One run of the null loop (`stream` is None) or of the user's loop, until it is ended by SIGTERM."""

    client: str
    bootstrap: str
    name: str
    """Consumer group and transactional id."""
    topic: str
    answers: str
    answer_bytes: int = 0
    """How long the null loop's answers are: as many bytes as the daemon's, with its header."""
    stream: str | None = None
    limit: int = 2_000

    def to_json(self) -> str:
        """Return it as one line."""
        return json.dumps(asdict(self))


Answer = Callable[[bytes], bytes | None]
"""What the user's loop makes of an event: the prediction, or None if there is nothing to say."""
LABEL = b'"label"'
"""What the null loop looks for: an event with it is not answered."""
