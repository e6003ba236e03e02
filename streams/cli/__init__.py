"""The command line: `streams run`, `describe`, `config show` and `demo`; one file for each command."""
