"""A lone string is one; a list is looked through for every token."""

if isinstance(self.stop_strs, (list, tuple)) and len(self.stop_strs) > OEACTL.max_stops:
    raise ValueError("%d stop strings, and at most %d are allowed" % (len(self.stop_strs), OEACTL.max_stops))
