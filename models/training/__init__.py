"""How are the shipped models made from measurements, and how far off are they where they did not look?

    cells.py      the measured cells as arrays, runs of one cell joined, each with its baseline
    folds.py      what a fit must not see when it predicts a cell: targets, methods and k, high loads, long contexts
    metrics.py    errors, decisions, regret
    step_cost.py  the fit of the step cost's constants, and its held-out predictions
    rivals.py     the rules and formulas that a fitted model must beat
    benefit*.py   the questions that the benefit classifier learns from, its competitors, folds and card

Nothing here runs when advice is asked for. The tables lie in data/measurements of a checkout.
"""
