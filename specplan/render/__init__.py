"""Words and pictures: the only place that makes them."""
