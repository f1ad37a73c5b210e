"""What a twin says about what was not measured: bands of figures, and answers to what if."""
