"""How to ask: the HTTP service and the `specworth` command line, two edges of the same `advisor.advise`."""
