"""Results: a run is a folder."""
