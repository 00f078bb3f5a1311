"""A report for a capacity review: the decision, what it rests on, how sure it is, and how to get it again.

One document (`document`) is built of a recommendation (`advice`) or a profile (`measured`) and rendered twice: as a
single HTML file that needs nothing else (`html`), and as Markdown (`markdown`).
"""
