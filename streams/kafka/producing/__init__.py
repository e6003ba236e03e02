"""Sending of all that a task writes: records of sinks, changelogs and dead letters, with each delivery report."""
