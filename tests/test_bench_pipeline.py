"""`streamnb bench pipeline` prints every figure of its table, and leaves nothing behind on the broker."""

import json
import math
import subprocess
import sys
from typing import Any

import pytest

from streamnb.bench.pipeline import goals
from streamnb.bench.pipeline.sides import cpu_seconds
from streamnb.bench.pipeline.streams import STREAMS, text
from streamnb.bench.timing import once  # noqa: F401  # the module is there without scikit-learn
