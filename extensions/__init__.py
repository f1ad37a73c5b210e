"""Systems of published work, each in one folder, on top of the core."""
