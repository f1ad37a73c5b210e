"""Predictions of a twin beyond the measurement: bands of figures, and answers to what-if questions."""
