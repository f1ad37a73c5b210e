"""What the published measurements are of: batteries, radio, processors, services."""
