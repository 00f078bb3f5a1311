"""Facts: prompts, deployments, models, memory, and every contact with vLLM."""
