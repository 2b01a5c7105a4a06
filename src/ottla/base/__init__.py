"""Ground for every package: clock, timers, task scope, config fields, errors. No domain words."""
