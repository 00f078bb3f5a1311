"""Who may ask, for what, and how often?

keys      API keys: made, kept as hashes, recognised
access    what a route asks for before it does anything
rate      how many requests one key may send
loopback  which addresses are this machine alone
"""
