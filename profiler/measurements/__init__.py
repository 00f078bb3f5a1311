"""What has been measured? The data set's tables: their columns, how labels are made, coverage, noise and plots.

    columns.py   every column once: kind, unit, meaning, bounds
    table.py     the CSV files, read and written
    estimate.py  throughput and TPOT of a span that is no whole number of cycles
    cells.py     what the tables of cells share: identity, runs, order, labels of acceptance
    merge.py     a sweep's rows into the tables: runs, labels, baselines, flags
    acceptance.py  the tables of measured acceptance
    real_pair.py  the table of a real pair's speedups end to end
    schema.py    what every file must satisfy (pandera)
    coverage.py  what there is by method, concurrency and context
    noise.py     how far two runs of one cell differ
    deployment.py  the Deployment that an engine's row stands for
    memory.py    memory plans beside the logged caches
    plots.py     speedup over concurrency (matplotlib)
    real_plots.py  the same of a real pair, by class of prompts

The tables lie in data/measurements of a checkout, not in the installed package: nothing needs them at run time.
"""

from profiler.measurements.table import MeasurementsError, read_cells, read_engines

__all__ = ["MeasurementsError", "read_cells", "read_engines"]
