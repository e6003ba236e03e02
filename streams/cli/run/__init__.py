"""`streams run`: one worker, or a supervisor of several."""
