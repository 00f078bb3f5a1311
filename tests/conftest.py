"""What holds for every test, however the run was started."""

import signal

# A shell without job control starts background commands with SIGINT ignored, and their children inherit that: the tests
# of Ctrl-C would wait for an interruption that never comes. A caught signal falls back to its default in a new process.
signal.signal(signal.SIGINT, signal.default_int_handler)
