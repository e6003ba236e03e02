"""`streams top`: the workers of an application, live on the terminal."""
