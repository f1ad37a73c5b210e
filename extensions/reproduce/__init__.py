"""`cosim reproduce`: tables and figures of published systems, made again beside the numbers of their sources."""
