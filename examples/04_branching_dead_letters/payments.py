"""Payments are split by their size; those that cannot be read or worked out go to a dead letter queue.

Without handlers the first bad record stops the application, and stops it again after each restart. With these handlers
it goes to topic `payments-dead`, with unchanged bytes, and headers with the error and its topic, partition and offset.
"""

from typing import Any

from streams import Branched, Serdes, StreamsBuilder, json_serde, run

TEXT, JSON = Serdes.STRING, json_serde()

RATES = {"EUR": 1.0, "USD": 0.9, "GBP": 1.2}
LARGE = 1000

settings: dict[str, Any] = {
    "application.id": "payments",
    "deserialization.exception.handler": "LogAndContinueExceptionHandler",
    "processing.exception.handler": "LogAndContinueProcessingExceptionHandler",
    "errors.dead.letter.queue.topic.name": "payments-dead",
}


def in_euros(payment: dict[str, Any]) -> dict[str, Any]:
    """Returns the amount of a payment in euros.

    :raises KeyError: if the currency is not known, or something is missing."""
    return {**payment, "euros": payment["amount"] * RATES[payment["currency"]]}


def topology() -> StreamsBuilder:
    builder = StreamsBuilder()
    payments = builder.stream("payments", key_serde=TEXT, value_serde=JSON).map_values(in_euros)
    sizes = payments.split(name="size-").branch(lambda _, payment: payment["euros"] >= LARGE, Branched.as_("large"))
    branches = sizes.default_branch(Branched.as_("small"))
    branches["size-large"].to("payments-large", key_serde=TEXT, value_serde=JSON)
    branches["size-small"].to("payments-small", key_serde=TEXT, value_serde=JSON)
    return builder


if __name__ == "__main__":
    run(topology, settings)
