"""tfprof's four views and its adviser, identical to the character.

These modules reproduce the output of tfprof of TensorFlow 2.15 for its own profiles, its known defects
included, so that numbers from old notes, scripts and papers can be reproduced. Other sources get the views of
:mod:`stepscope.analyze.views`, which share the options and repair the defects.
"""
