"""Traffic of a web shop, made from a seed, with everything that is wrong with real traffic, and what is true of it.

    site     what happens: visits with page views, clicks, searches and ads; metrics and logs of the services behind
    mess     what arrives: robots, copies, late and broken events, times and addresses in many spellings
    truth    what a pipeline has to find, counted here by plain Python from what happened

Nothing here knows Spark or a broker: the same seed gives the same records and the same truth anywhere.
"""

from ottla.pipeline.traffic.mess import KINDS_BY_TOPIC, Arrival, Traffic, make_traffic
from ottla.pipeline.traffic.truth import Truth

__all__ = ["KINDS_BY_TOPIC", "Arrival", "Traffic", "Truth", "make_traffic"]
