"""Tables that others wrote, read as they are: columns, numbers and times in any usual form."""
