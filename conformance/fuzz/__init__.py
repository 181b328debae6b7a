"""Differential fuzzing: two adapters get the same random questions, and their answers are compared.

``values`` makes the questions, ``side`` sends them to an adapter, ``compare`` compares the answers,
``minimise`` minimises a question, ``findings`` names a difference and writes it to a file, ``run``
is the loop. ``targets`` fuzzes this project's own readers, ``subprocess_target`` does so in a
subprocess. A seed determines everything.
"""
