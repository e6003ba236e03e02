"""The start of a task: the conditions under which it may run, its offsets, and its restores."""
