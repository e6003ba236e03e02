"""`streams state`: inspects the state on disk, and removes what is damaged."""
