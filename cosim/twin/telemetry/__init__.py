"""What was measured: read from files and runs, examined, and matched with what is simulated."""
