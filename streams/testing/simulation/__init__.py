"""Runs an application under a seeded scheduler and one clock, makes everything fail that can, and checks the output.

Start reading at `run.simulate`. `world` is one run, and `scheduler` decides which thread runs next. `clients`,
`network` and `disk` replace the outside world of the application; `schedule` and `acts` are the events of the run.
"""

from streams.testing.simulation.run import Report, SimulationError, SimulationFailure, simulate
from streams.testing.simulation.scenario import Check, InputRecord, Outcome, OutputRecord
from streams.testing.simulation.schedule import KINDS, Action

__all__ = [
    "KINDS",
    "Action",
    "Check",
    "InputRecord",
    "Outcome",
    "OutputRecord",
    "Report",
    "SimulationError",
    "SimulationFailure",
    "simulate",
]
