"""The simulator, compiled: the same sources by mypyc, in the place of the readable ones.

``python -m kraftspec.simulation.compiled`` builds it (``build``), into the user's cache, under a
name that says all it is made of. From then on ``kraftspec simulate`` takes it where it may
(``loading``): the modules have the same names, so whatever imports them gets the compiled ones. A
process has either the one or the other.

Calls within what is compiled are bound when it is compiled. What replaces functions, as a planted
bug does, would be ignored silently there, so it needs the readable sources, and refuses others.
"""
