"""Channels: one kind a file, each translating its library's errors at its edge."""
