"""What the pipeline is to reach: by client and figure."""

from streamnb.bench.pipeline.streams import STREAMS

NULL = "events per CPU-second / null loop"
USER = "events per CPU-second / user's loop"
LATENCY = "latency / null loop"
STEP = "longest step during snapshots of 32 MB, ms"
STEPS = "99 % of the steps during snapshots, ms"
REPLAY = "replay at start / decode, predict and learn alone"
START = "run to first answer, s"
IDLE = "memory when idle, MiB"
ALONE = "decode, predict, learn and encode alone, us"
FILES = "files: time / bare loop"

EIGHT, THIRTY, TEXT = (stream.name for stream in STREAMS)
AT_LEAST = {
    ("confluent", EIGHT, NULL): 0.45,
    ("confluent", EIGHT, USER): 22.0,
    ("kafka-python", EIGHT, NULL): 0.9,
    ("kafka-python", EIGHT, USER): 7.0,
    ("confluent", THIRTY, USER): 22.0,
    ("kafka-python", THIRTY, USER): 7.0,
    ("confluent", TEXT, USER): 15.0,
}
AT_LEAST_REPLAY = 0.8
AT_MOST_LATENCY = 1.5
AT_MOST_STEP_MS = 50.0
AT_MOST_START_SECONDS = 3.0
