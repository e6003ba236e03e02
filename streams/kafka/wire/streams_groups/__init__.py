"""The client of groups of the streams protocol (KIP-1071): heartbeats, descriptions, and the requests of a member."""
