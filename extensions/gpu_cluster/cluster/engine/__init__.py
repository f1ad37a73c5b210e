"""The compiled event kernel of a cluster: its state, placing, wiring, and the loop over events."""
