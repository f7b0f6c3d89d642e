"""The meaning of names: one reader of the facts in the names of tags and runs.

``splits`` finds the part of the data, ``roles`` the role that a health rule needs, ``kinds`` how a metric is
drawn and which way is better, ``telling`` which charts a person looks at first, ``tensors`` which tensor of
which layer a histogram shows. ``meanings`` puts a user's
corrections before them: health, the store, the page's charts, the ranks' files and the reports ask it.
"""
