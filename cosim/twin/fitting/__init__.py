"""From a problem to values with intervals: screen, search, posterior, judgement."""
