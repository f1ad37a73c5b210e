"""The foundation of all other packages; it imports nothing else of the project, and is cheap to import.

- `errors`, `units`, `selector`: what every layer reports to its user, reads from text, and names nodes by.
- `entities`, `reality`, `faults`, `geo`, `seeds`: a scenario's scene as adapters see it, where and by chance.
- `signals`, `frame`, `slots`, `presence`: what is exchanged in a step.
- `adapter`, `registry`: the contract of an adapter, and where adapters are found.
"""
