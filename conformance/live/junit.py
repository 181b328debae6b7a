"""Results of the live suite as JUnit XML, for build servers."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree as Xml

from kraftspec.conformance.live.run import Result
from kraftspec.conformance.report.junit import document, xml_text


def junit(target: str, results: Sequence[Result], *, strict: bool = False) -> str:
    """Return results as JUnit XML: a scenario is a test case.

    With ``strict``, what a node only should do fails a case, too.
    """
    root = Xml.Element("testsuites", name=xml_text(target))
    suite = Xml.SubElement(root, "testsuite", name="live")
    for result in results:
        case = Xml.SubElement(
            suite, "testcase", name=result.scenario, classname=xml_text(f"{target}.live"),
            time=f"{result.seconds:.3f}",
        )  # fmt: skip
        text = "; ".join(
            f"{problem.place}: {problem.detail} [{problem.cites}]" for problem in result.problems
        )
        exchange = xml_text("\n".join(result.transcript.lines()) if result.problems else "")
        if result.error:
            Xml.SubElement(case, "error", message=xml_text(result.error), type="no verdict")
        elif result.verdict == "known failure":
            Xml.SubElement(case, "skipped", message=xml_text(f"known failure: {result.known}"))
        elif result.verdict == "unexpected pass":
            message = f"passes, though it is known to fail: {result.known}"
            Xml.SubElement(case, "failure", message=xml_text(message), type="conformance")
        elif result.failed or (strict and result.problems):
            failure = Xml.SubElement(case, "failure", message=xml_text(text), type="conformance")
            failure.text = exchange
            continue
        if text:
            Xml.SubElement(case, "system-out").text = f"{xml_text(text)}\n{exchange}"
    return document(root, sum(result.seconds for result in results))
