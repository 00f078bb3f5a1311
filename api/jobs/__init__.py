"""Profile jobs: measuring on demand, in a worker process, one job at a time on a GPU.

request       what a client may ask for
destinations  which running servers may be attached to, and at which address they are reached
launching     which models and flags may be started
queue         jobs in the database: submitted, claimed, ended, each exactly once
heartbeat     a running job's lease, its events, and word that it is to stop
measuring     one job from its claim to its end
worker        the process that does so, job by job
tables        the columns

The state is in the database alone, so that services and workers can be several, on several hosts, and can die.
"""
