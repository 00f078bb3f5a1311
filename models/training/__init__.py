"""How are the shipped models made from measurements, and how far off are they where they did not look?

    train.py      all artefacts and their card, from tables
    cells.py      the measured cells as arrays, runs of one cell joined, each with its baseline
    folds.py      what a fit must not see when it predicts a cell: targets, methods and k, high loads, long contexts
    step_cost.py  the fit of the step cost's constants; step_cost_numbers.py writes them with sources and spreads
    held_out.py   predictions and intervals of each fold by what never saw it
    intervals.py  split-conformal widths by method and band of concurrency
    evaluation.py held-out figures; metrics.py what they are, rivals.py what they have to beat, aims.py what was aimed
                  at
    residuals.py  where the errors lie; learned_residuals.py whether learning them would help; own_rows.py a user's rows
    card.py       the model card, card_text.py its words
    acceptance*   the same for acceptance; benefit* for the benefit classifier

Nothing here runs when advice is asked for. The tables lie in data/measurements of a checkout.
"""
