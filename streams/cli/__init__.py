"""The command line: `streams run`, `describe`, `config show`, `doctor` and `demo`; one file for each command."""
