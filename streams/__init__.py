"""Kafka Streams for Python."""

from streams.origin import check_origin

check_origin()

__version__ = "0.1.0"
