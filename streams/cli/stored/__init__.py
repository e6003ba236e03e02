"""`streams state`: looks at the state on disk, and takes out what is damaged."""
