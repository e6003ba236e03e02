"""Snapshots of tasks that run, and tasks that start from snapshots."""
