"""What the web side needs of the metrics."""

from typing import Protocol


class Instruments(Protocol):
    """Read from the HTTP thread while the loop writes."""

    def exposition(self, accept: str | None = None, ready: bool = False) -> tuple[bytes, str]:
        """The metrics as text, whether the daemon is `ready` among them, and its content type."""

    def totals(self) -> dict[str, object]:
        """What this process has done since it began, as JSON values; `events`, `predictions` among them."""
