"""From specs to code, in four steps: read, check, plan, render.

*Read* keeps the position of every token, so that each mistake is reported where it is. *Check*
rejects what Kafka's own generator rejects, all mistakes of a file at once; the result is a frozen
model that is valid by construction. *Plan* removes the version ranges: one message at one version,
as a list of what comes next on the wire. *Render* fills templates, which contain no version logic.
`importer` takes the schemas out of Kafka's jars, `releases` fetches these by the name of a release.
`diff` and `evolution` report what an edit breaks in released versions, `history` what each release
of Kafka changed.

Called by ``kraftspec generate`` and ``kraftspec spec``, and by programs that read plans; it may
import `fastpath` and `specs`.
"""
