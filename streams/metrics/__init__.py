"""Metrics: sensors that take values, and the statistics made of them, with Kafka's names and meanings."""

from streams.metrics.stats import Avg, CumulativeCount, CumulativeSum, Max, Min, Rate, Value, WindowedCount, WindowedSum

__all__ = [
    "Avg",
    "CumulativeCount",
    "CumulativeSum",
    "Max",
    "Min",
    "Rate",
    "Value",
    "WindowedCount",
    "WindowedSum",
]
