"""An answer for people: what it says, in which order, and how a terminal or a Markdown file shows it."""
