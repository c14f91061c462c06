"""The rules of the protocol as pure functions and values: no I/O, no clock, no state that changes."""
