"""SimTune: a simulator's parameters by surrogates and evolution strategies."""
