"""The report: one offline HTML file per run or comparison."""
