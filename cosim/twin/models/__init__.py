"""Small exact models of systems that published data come from, compiled and run in batches."""
