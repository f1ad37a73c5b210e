"""One way to judge data and models: statistics with their distributions under the fitted model."""
