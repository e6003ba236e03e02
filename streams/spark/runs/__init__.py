"""Directories of backfills: that of one run, and of runs that continue with each other."""
