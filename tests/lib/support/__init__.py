"""What several tests need: recordings and ports."""
