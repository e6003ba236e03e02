"""A record's way through the nodes of one task: input queues, contexts, punctuations, errors.

Knows neither stores nor commits. Imported by tasks, global stores and the test driver. Start with
:mod:`streams.runtime.processing.node_chain`.
"""
