"""The part of ``stepscope run`` inside a program that knows nothing of it, so that its training is recorded.

``path/sitecustomize.py`` is loaded by every Python process of the program, at the cost of a millisecond.
When a framework is imported, the module here of that framework is called with it. ``process.py`` makes the
run of the process once it trains, ``loop.py`` makes steps of the fetches and updates that are seen.
"""
