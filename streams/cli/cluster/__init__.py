"""The commands that work on a cluster: topics, records, groups, and the reset of an application."""
