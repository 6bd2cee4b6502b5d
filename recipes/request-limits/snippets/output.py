"""Without a limit of its own a request gets this one."""

if self.max_new_tokens is None or self.max_new_tokens > OEACTL.max_new_tokens:
    self.max_new_tokens = OEACTL.max_new_tokens
