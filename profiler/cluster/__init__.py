"""Measurements on the nodes of a Ray cluster, one task for each engine; the extra `specworth[ray]`.

    connection.py   reach a cluster; the only module that imports Ray, and only when asked to
    nodes.py        which nodes can hold an engine; what no node can hold is refused before anything starts
    task.py         what runs on a node: a command in a folder of its own, whose files are told as they grow
    dispatch.py     tasks sent out, sent again where a node was lost, and what they tell
    relay.py        one command on a cluster, told line by line to a caller that must outlive it (a command)
    words.py        our own lines apart from Ray's, and how far a process came that Ray may end
    sweep.py        a sweep's engines as such tasks (a command)

A task runs nothing of ours but `task.py`; it starts the same `python -m profiler.sweep` that a host alone would run,
under the interpreter that has vLLM, from a copy of `profiler` that travels with the job. So Ray's own Python needs
nothing of ours, and vLLM's nothing of Ray.
"""
