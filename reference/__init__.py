"""The reference KRaft node. To come: nothing of it is in this room yet.

It will be a core that takes events and returns effects and never touches a clock, a socket, a disk
or a random source itself, so that the same code runs against a real quorum and under a simulator
where one seed owns everything. Roles are modules; the table of transitions is data.
"""
