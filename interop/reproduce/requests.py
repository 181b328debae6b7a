"""What one request does to a controller: it answers, or its process ends."""

from __future__ import annotations

import time
from collections.abc import Callable
from textwrap import shorten

from kraftspec.conformance.cluster import Node
from kraftspec.conformance.cluster.node import HEALTHY_TIMEOUT_S
from kraftspec.fastpath.message import Message
from kraftspec.generated.errors import ErrorCode
from kraftspec.interop.ours import CheckFailedError
from kraftspec.interop.reproduce.stage import Stage
from kraftspec.reference.wire.blocking import ask

POLL_S = 0.1
REASON_CHARS = 120
ANSWER_S = 20.0
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    # The listener knows nobody by name: who connects is User:ANONYMOUS.
    "allow.everyone.if.no.acl.found": "false",
}
# Who may send a request: each is a controller of its own.
SENDERS = {
    "no authorizer": {},
    "an authorizer, the sender without a right": AUTHORIZER,
    "an authorizer, the sender a super user": AUTHORIZER | {"super.users": "User:ANONYMOUS"},
}


def try_senders(
    stage: Stage,
    what: str,
    request_to: Callable[[Node], Message],
    version: int,
    response: type[Message],
) -> bool:
    """Send a request to one controller after another, each with other rights of the sender.

    Returns whether a process ended.
    """
    has_ended = False
    for number, (who, properties) in enumerate(SENDERS.items()):
        cluster = stage.cluster(1, properties, name=f"quorum-{number}")
        (node,) = cluster.controllers
        effect = effect_of(node, request_to(node), version, response)
        stage.step(f"{what}; {who}: {effect}")
        has_ended |= not node.running()
        cluster.stop()
    return has_ended


def effect_of(node: Node, request: Message, version: int, response: type[Message]) -> str:
    """Send a request; return what came of it in words. The process may have ended then."""
    try:
        answer = ask(node.listener().port, request, version, response, timeout_s=ANSWER_S)
    except OSError as error:
        if not _ends(node):
            raise CheckFailedError(f"no answer, and the process lives: {error}") from error
        assert node.process is not None
        return f"the process ends with {node.process.returncode}: {_reason(node)}"
    if _ends(node, within_s=2.0):  # The fault handler may be slower than the answer.
        return f"{answer_in_words(answer)}, and the process ends: {_reason(node)}"
    return answer_in_words(answer)


def answer_in_words(answer: Message) -> str:
    """Return the error of an answer, or that of its partition."""
    code = getattr(answer, "error_code", 0)
    topics = getattr(answer, "topics", [])
    if not code and topics:
        partition = topics[0].partitions[0]
        if getattr(partition, "vote_granted", False):
            return "the vote is granted"
        code = partition.error_code
    return f"answers {ErrorCode(code).name}"


def _ends(node: Node, within_s: float = HEALTHY_TIMEOUT_S) -> bool:
    deadline = time.monotonic() + within_s
    while node.running() and time.monotonic() < deadline:
        time.sleep(POLL_S)
    return not node.running()


def _reason(node: Node) -> str:
    """Return the exception that a node printed last."""
    lines = node.log_path.read_text(encoding="utf-8", errors="replace").splitlines()
    reasons = [line for line in lines if line.startswith("java.lang.")]
    return shorten(reasons[-1], REASON_CHARS) if reasons else node.log_tail()
