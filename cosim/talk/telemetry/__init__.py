"""The signal catalogue."""
