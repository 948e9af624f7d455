"""The status page: one HTML document with its style and script inside, and a policy that allows no more."""

import base64
import functools
import hashlib
from importlib.resources import files


@functools.cache
def html() -> str:
    """Return the whole document."""
    return _part("status.html").replace("/* style */", _part("status.css")).replace("/* script */", _script())


@functools.cache
def content_security_policy() -> str:
    """Return the policy under which a browser runs the page's own style and script and loads nothing."""
    style, script = _hash(_part("status.css")), _hash(_script())
    return (
        f"default-src 'none'; style-src {style}; script-src {script}; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


def _script() -> str:
    return _part("quality.js") + _part("status.js")


def _part(name: str) -> str:
    return files("streamnb.web").joinpath(name).read_text("utf-8")


def _hash(text: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"
