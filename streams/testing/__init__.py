"""Tools for tests: a driver that runs a topology without a broker, and contract suites."""

from streams.testing.driver import Produced, TopologyTestDriver
from streams.testing.topics import TestInputTopic, TestOutputTopic, TestRecord

__all__ = ["Produced", "TestInputTopic", "TestOutputTopic", "TestRecord", "TopologyTestDriver"]
