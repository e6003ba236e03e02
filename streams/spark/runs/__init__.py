"""Directories of backfills: that of one run, and of runs that go on with each other."""
