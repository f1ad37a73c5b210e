"""What all sources of `cosim import` share.

Each has a function `read(...)` that returns an `Imported`: the text of a scenario, and a
notice for every key that does not do what its author may have thought. It writes nothing;
`cosim.sources.importing.write.write_scenario` does, all or nothing.
"""
