"""Runs single tasks over records that are handed to them, without Kafka clients, threads or a group.

Imported by batch jobs, such as a backfill. Start with :mod:`streams.runtime.runner.task_runner`.
"""
