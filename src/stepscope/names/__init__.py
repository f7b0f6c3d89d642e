"""The meaning of names: one reader of what a tag or a run says about its values.

``splits`` finds the part of the data, ``roles`` what a rule of health needs, ``kinds`` how a metric is drawn
and which way is better. Health, the store, the page's charts, the ranks' files and the reports ask these
three, so that they agree.
"""
