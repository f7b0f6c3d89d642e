"""What several tests need: recordings, ports, waiting, events as they lie in a file."""
