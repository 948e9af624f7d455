"""The loops that a user would write with confluent-kafka."""

from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from streamnb.bench.pipeline.plan import LABEL, Answer, Plan


def run(plan: Plan, answer: Answer | None) -> None:
    """See `streamnb.bench.pipeline.kafka_python.run`."""
    consumer = Consumer(
        {
            "bootstrap.servers": plan.bootstrap,
            "group.id": plan.name,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 100,
            "fetch.queue.backoff.ms": 10,
        }
    )
    producer = Producer(
        {
            "bootstrap.servers": plan.bootstrap,
            "transactional.id": plan.name,
            "linger.ms": 100,
            "batch.size": 1_000_000,
            "retry.backoff.ms": 2,
        }
    )
    producer.init_transactions()
    consumer.subscribe([plan.topic])
    payload = bytes(plan.answer_bytes)
    produce = producer.produce
    try:
        while True:
            messages: Any = consumer.consume(plan.limit, 0) or consumer.consume(1, 0.5)
            if not messages:
                continue
            producer.begin_transaction()
            for message in messages:
                if message.error() is not None:
                    raise SystemExit(str(message.error()))
                value = message.value()
                prediction = (None if LABEL in value else payload) if answer is None else answer(value)
                if prediction is not None:
                    produce(plan.answers, prediction, message.key(), 0)
            producer.flush()
            offsets = [TopicPartition(plan.topic, message.partition(), message.offset() + 1)]
            producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata())
            producer.commit_transaction()
    finally:
        consumer.close()
