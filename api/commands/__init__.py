"""The command line's commands: each reads its options, calls one function and renders what it returns.

What a command takes lies in a module that imports nothing but Typer; what it does lies in `run_*` and is imported when
it runs, so that `specworth --help` answers at once.
"""
