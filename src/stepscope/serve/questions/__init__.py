"""Questions over a log directory, asked from the command line, Python, agents and the page alike."""
