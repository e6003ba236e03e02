"""The topology as plain data: its nodes, how it is put together, described and split into subtopologies."""
