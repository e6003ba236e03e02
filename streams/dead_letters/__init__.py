"""The dead letters of an application: read, grouped by their cause, and sent back to where they came from.

    from streams.dead_letters import DeadLetterQueue, LetterFilter

`streams dlq` does the same on the command line (docs/errors-and-dead-letters.md).
"""

from streams.dead_letters.groups import DeadLetterGroup
from streams.dead_letters.letters import DeadLetter, DeadLetterError, LetterFilter
from streams.dead_letters.queue import DeadLetterQueue
from streams.dead_letters.replay import ReplayReport

__all__ = ["DeadLetter", "DeadLetterError", "DeadLetterGroup", "DeadLetterQueue", "LetterFilter", "ReplayReport"]
