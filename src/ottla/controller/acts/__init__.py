"""What a controller does, deed by deed: decide (``machine``), write, believe, tell. Each takes the term it acts in."""
