"""The service's routes: each reads, calls one function and hands back what it returns."""
