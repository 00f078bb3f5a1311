"""Running vLLM servers: starting, watching and stopping them, or attaching to ones that run already."""
