"""The dead letters of an application: listed, grouped by their cause, and sent back to where they came from."""
