"""What was answered and measured, kept in a database: SQLite by default, PostgreSQL by URL.

record           what of a request and its answer is kept (no prompts, unless asked)
recommendations  kept, found again, labelled, deleted
profiles         the same for what `specworth profile` measured
difference       what changed between two
history          how the service waits for the database, and what it promises
database         connections, transactions, durability
schema           migrations
"""
