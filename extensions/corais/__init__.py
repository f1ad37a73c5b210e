"""Which edge runs which request of one service: CoRaiS' problem of multi-edge request scheduling, and its solvers.

- `problem`: the instance and its exact objective, the makespan over edges.
- `families`: seeded instance families, `corais` as recovered from published figures, and `corais-tight`, a hard one.
- `search` and, for large instances, `filling`: ours, compiled. `exact`: the mixed-integer program by HiGHS.
- `baselines`: local, predicted, the best of k random decisions.
"""
