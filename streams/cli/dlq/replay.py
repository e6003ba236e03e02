"""`streams dlq replay`."""

from streams.dead_letters.replay import add_parser as add_parser
