"""Results as JUnit XML, for build servers: a test case is one message at one version."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from xml.etree import ElementTree as Xml

from kraftspec.conformance.raw.results import Counts, Failure, Results, UnexpectedPass
from kraftspec.conformance.report import regressions, set_and_message

FAILURES_TOLD_MAX = 20  # Of one test case; a build server shows them as one text.
# What XML 1.0 has no way to write, not even as a reference.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(results: Results) -> str:
    """Return the results as JUnit XML: a test suite a message, a test case a version of it.

    A case fails where one of its tests failed, or passed though it is known to fail; a case of
    which nothing was answered, or in which all that fails is known, is skipped. The counts of a
    suite are of test cases, as build servers want them.
    """
    root = Xml.Element("testsuites", name=_text(results.adapter.name))
    told: defaultdict[tuple[str, str, int], list[str]] = defaultdict(list)
    found: list[Failure | UnexpectedPass] = [*results.failures, *results.unexpected_passes]
    for one in found:
        told[one.spec, one.message, one.version].append(_line(one))
    for key, versions in results.messages.items():
        spec, message = set_and_message(key)
        suite = Xml.SubElement(root, "testsuite", name=f"{spec}/{message}")
        for version in sorted(versions, key=int):
            counts = versions[version]
            case = Xml.SubElement(
                suite,
                "testcase",
                name=f"version {version}",
                classname=_text(f"{results.adapter.name}.{spec}.{message}"),
                time="0",
            )
            _outcome(case, counts, told[spec, message, int(version)])
    if results.harness_failure:
        broke = results.harness_failure
        suite = Xml.SubElement(root, "testsuite", name="harness")
        case = Xml.SubElement(suite, "testcase", name="the run", classname="harness", time="0")
        Xml.SubElement(case, "error", message=_text(broke.kind)).text = _text(broke.detail)
    _count(root, results.seconds)
    Xml.indent(root)
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n' + Xml.tostring(root, encoding="unicode") + "\n"
    )


def _outcome(case: Xml.Element, counts: Counts, told: list[str]) -> None:
    summary = (
        f"{counts.passed} passed, {counts.failed} failed, {counts.skipped} skipped, "
        f"{counts.known_failures} known failures, {counts.unexpected_passes} unexpected passes"
    )
    if regressions(counts):
        failure = Xml.SubElement(case, "failure", message=summary, type="conformance")
        failure.text = _text("\n\n".join(told[:FAILURES_TOLD_MAX]))
        if len(told) > FAILURES_TOLD_MAX:
            failure.text += f"\n\nand {len(told) - FAILURES_TOLD_MAX} more; the JSON has them all"
    elif counts.known_failures or not counts.passed:
        Xml.SubElement(case, "skipped", message=summary)
    Xml.SubElement(case, "system-out").text = summary


def _line(one: Failure | UnexpectedPass) -> str:
    start = f"{one.direction} {one.id} ({one.family})"
    if isinstance(one, UnexpectedPass):
        return f"{start}: passed, though known to fail: {one.known}"
    known = f"\n  known: {one.known}" if one.known else ""
    return f"{start}: {one.detail}\n  {one.reproduce}{known}"


def _text(text: str) -> str:
    return _NOT_XML.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _count(root: Xml.Element, seconds: float) -> None:
    """Write into each suite, and into all of them together, how many cases came out how."""
    whole: Counter[str] = Counter()
    for suite in root:
        counts = {
            "tests": len(suite),
            "failures": len(suite.findall("testcase/failure")),
            "errors": len(suite.findall("testcase/error")),
            "skipped": len(suite.findall("testcase/skipped")),
        }
        whole.update(counts)
        suite.attrib.update({what: str(count) for what, count in counts.items()}, time="0")
    del whole["skipped"]  # Not an attribute of the whole.
    root.attrib.update({what: str(count) for what, count in whole.items()}, time=f"{seconds:.3f}")
