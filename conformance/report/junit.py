"""Results as JUnit XML, for build servers."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from xml.etree import ElementTree as Xml

from kraftspec.conformance.raw.results import Counts, Failure, Results, UnexpectedPass
from kraftspec.conformance.report import regressions, set_and_message

FAILURES_SHOWN_MAX = 20  # For one test case; a build server shows them as one text.
# Characters that XML 1.0 cannot represent, not even as a reference.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(results: Results) -> str:
    """Return the results as JUnit XML: a message is a test suite, a version is a test case.

    A case fails if one of its tests failed, or passed as a known failure. A case without answers,
    or with known failures only, is skipped. The counts of a suite are of test cases, as build
    servers expect.
    """
    root = Xml.Element("testsuites", name=xml_text(results.adapter.name))
    texts: defaultdict[tuple[str, str, int], list[str]] = defaultdict(list)
    failures: list[Failure | UnexpectedPass] = [*results.failures, *results.unexpected_passes]
    for one in failures:
        texts[one.spec, one.message, one.version].append(_line(one))
    for key, versions in results.messages.items():
        spec, message = set_and_message(key)
        suite = Xml.SubElement(root, "testsuite", name=f"{spec}/{message}")
        for version in sorted(versions, key=int):
            counts = versions[version]
            case = Xml.SubElement(
                suite,
                "testcase",
                name=f"version {version}",
                classname=xml_text(f"{results.adapter.name}.{spec}.{message}"),
                time="0",
            )
            _outcome(case, counts, texts[spec, message, int(version)])
    if results.harness_failure:
        broke = results.harness_failure
        suite = Xml.SubElement(root, "testsuite", name="harness")
        case = Xml.SubElement(suite, "testcase", name="the run", classname="harness", time="0")
        Xml.SubElement(case, "error", message=xml_text(broke.kind)).text = xml_text(broke.detail)
    return document(root, results.seconds)


def document(root: Xml.Element, seconds: float) -> str:
    """Return suites as text, with their counts. A run took so long."""
    _count(root, seconds)
    Xml.indent(root)
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n' + Xml.tostring(root, encoding="unicode") + "\n"
    )


def _outcome(case: Xml.Element, counts: Counts, texts: list[str]) -> None:
    summary = (
        f"{counts.passed} passed, {counts.failed} failed, {counts.skipped} skipped, "
        f"{counts.known_failures} known failures, {counts.unexpected_passes} unexpected passes"
    )
    if regressions(counts):
        failure = Xml.SubElement(case, "failure", message=summary, type="conformance")
        failure.text = xml_text("\n\n".join(texts[:FAILURES_SHOWN_MAX]))
        if len(texts) > FAILURES_SHOWN_MAX:
            failure.text += f"\n\nand {len(texts) - FAILURES_SHOWN_MAX} more; the JSON has them all"
    elif counts.known_failures or not counts.passed:
        Xml.SubElement(case, "skipped", message=summary)
    Xml.SubElement(case, "system-out").text = summary


def _line(one: Failure | UnexpectedPass) -> str:
    start = f"{one.direction} {one.id} ({one.family})"
    if isinstance(one, UnexpectedPass):
        return f"{start}: passed, though known to fail: {one.known}"
    known = f"\n  known: {one.known}" if one.known else ""
    return f"{start}: {one.detail}\n  {one.reproduce}{known}"


def xml_text(text: str) -> str:
    """Return a text as XML can have it: other characters are escaped."""
    return _NOT_XML.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _count(root: Xml.Element, seconds: float) -> None:
    """Write the counts of outcomes into each suite and into the root."""
    whole: Counter[str] = Counter()
    for suite in root:
        counts = {
            "tests": len(suite),
            "failures": len(suite.findall("testcase/failure")),
            "errors": len(suite.findall("testcase/error")),
            "skipped": len(suite.findall("testcase/skipped")),
        }
        whole.update(counts)
        taken_s = sum(float(case.get("time", "0")) for case in suite)
        suite.attrib.update(
            {what: str(count) for what, count in counts.items()},
            time=f"{taken_s:.3f}" if taken_s else "0",
        )
    del whole["skipped"]  # The root element has no such attribute.
    root.attrib.update({what: str(count) for what, count in whole.items()}, time=f"{seconds:.3f}")
