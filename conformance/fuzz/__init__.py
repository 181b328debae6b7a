"""Differential fuzzing: two adapters, the same random questions, and where their answers part.

``values`` and ``bytes`` make the questions, ``ask`` puts them to both, ``compare`` says whether the
answers part, ``minimise`` makes what parted small, ``findings`` gives it a name that stays and a
file, ``run`` is the loop. Everything follows from a seed.
"""
