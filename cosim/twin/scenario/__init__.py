"""A scenario with a block `calibrate` as a problem, its simulations, and the overlay that holds the answer."""
