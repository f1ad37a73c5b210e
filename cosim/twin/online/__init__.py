"""The twin of a run that goes on: window after window compared, and calibrated anew when it drifts."""
