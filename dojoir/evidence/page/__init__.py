"""A run or a trace as one page of HTML, which asks nobody for anything: what it shows is in it."""
