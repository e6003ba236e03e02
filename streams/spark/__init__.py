"""The bridge to PySpark: tables and topics as DataFrames, backfills of a topology over history, handover to live.

Needs the extra ``streams[spark]``; nothing else in the package imports this room.
"""
