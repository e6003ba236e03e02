"""Java's bytes for rows, keys and files of stores: pure functions, one small module for each form.

They are what stands on changelog topics or was written by Kafka Streams; a store may keep rows in a form of its own.
"""
