"""Results of the suite for clients as JUnit XML, for build servers."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree as Xml

from kraftspec.conformance.clients.run import NOT_JUDGED, Result
from kraftspec.conformance.report.junit import document, xml_text


def junit(client: str, results: Sequence[Result]) -> str:
    """Return results as JUnit XML: an exchange is a test case."""
    root = Xml.Element("testsuites", name=xml_text(client))
    suite = Xml.SubElement(root, "testsuite", name="clients")
    for result in results:
        case = Xml.SubElement(
            suite, "testcase", name=result.exchange, classname=xml_text(f"{client}.clients"),
            time=f"{result.seconds:.3f}",
        )  # fmt: skip
        text = xml_text(f"{result.verdict}: {result.detail}")
        if result.verdict == "no verdict":
            Xml.SubElement(case, "error", message=text, type="suite")
        elif result.verdict in NOT_JUDGED or result.known is not None:
            Xml.SubElement(case, "skipped", message=text)
        elif not result.passed:
            failure = Xml.SubElement(case, "failure", message=text, type="conformance")
            failure.text = xml_text("\n".join([*result.diagram, *result.output]))
        elif result.detail:
            Xml.SubElement(case, "system-out").text = text
    return document(root, sum(result.seconds for result in results))
