"""A keeper's metrics, under ZooKeeper's names: for Prometheus, and for ``mntr``.

    table      what there is: one declaration for each metric, with how it is read
    process    what the operating system says about this process
    render     the two texts
    page       the documentation, made from the table

Nothing here is kept between two calls; what is counted is counted in ``ottla.keeper.server.stats``.
"""

from ottla.keeper.metrics.render import monitor, render

__all__ = ["monitor", "render"]
