"""One broker, elected through the keeper, that decides who leads and tells the others: events to decisions to writes."""
