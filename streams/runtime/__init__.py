"""The runtime: tasks that run a subtopology for a partition, and the threads that run tasks."""
