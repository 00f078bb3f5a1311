"""What an operator sees of a running service.

logs      structured logs, without anything of the prompts
metrics   Prometheus metrics of the service itself
drift     do incoming requests look like what the models were trained on?
requests  every request: its id, its log line, its metrics
readiness can it answer: database and artefacts
"""
