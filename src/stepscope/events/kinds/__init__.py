"""How TensorBoard encodes each kind of summary: one module per kind, for writing and for reading.

``value(tag, …)`` makes the value of an event, ``read(value)`` takes one apart, whatever tool
wrote it and in whichever style.
"""
