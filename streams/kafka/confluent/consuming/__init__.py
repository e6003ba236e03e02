"""The parts of a consumer: its place in a group, what it reads, and the offsets that it commits and asks for."""
