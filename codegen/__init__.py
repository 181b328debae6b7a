"""From specs to code, in four steps: read, check, plan, render.

*Read* keeps the place of every token, so that each mistake can be shown where it stands. *Check*
refuses what Kafka's own generator refuses, all mistakes of a file at once, and leaves a frozen
model that is valid by construction. *Plan* folds every version range away: one message at one
version, as a flat answer to "which bytes come next?". *Render* prints plans through templates that
know nothing of versions. Beside that road stand the importer, which takes facts out of Kafka's
jars, and the differ, which says what an edit does to versions that are already out in the world.
"""
