"""Programs without a framework: numpy loops, data loaders."""
