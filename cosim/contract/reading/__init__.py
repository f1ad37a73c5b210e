"""What all readers of foreign files share: unpacking by content, units in heads, times, several sources in one file."""
