"""Results: a run is a folder of Parquet files with a manifest.

`folder` makes and opens run folders, `recorder` writes frames while a run goes on, `convert` turns
them into Parquet (or recovers a killed run), `load` reads runs back as DuckDB tables, `metrics`
computes key figures, `ledgers` checks that sums close, `compare` and `replications` set runs
against each other.
"""
