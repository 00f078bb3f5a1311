"""One prompt to two servers at once, for people to watch: the page /compare and POST /v1/comparisons.

request     what is asked: two servers, a prompt, how it is sampled
arm         one server: may it be reached, what is it, its answer as it comes, its acceptance
pace        when whose tokens came: speeds, and the speedup at the same number of tokens
marks       which tokens of an answer were drafts
machines    do both servers share a machine, a GPU?
comparison  both arms, as one sequence of events
"""
