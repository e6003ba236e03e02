"""Key-value stores whose rows expire: the buffer, the rules of expiry, the store and its view for other threads."""
