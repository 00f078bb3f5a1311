"""Predictions: what a workload and a deployment would do under speculation."""
