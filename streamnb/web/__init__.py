"""The HTTP side: metrics, health, the model in numbers and a live status page, on a thread of its own."""

from streamnb.web.server import WebServer

__all__ = ["WebServer"]
