"""`streams dlq`: dead letters grouped by their cause, shown, and sent back to where they came from."""
