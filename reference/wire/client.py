"""The asking side of a connection, without a socket: requests become frames, and frames answers.

Answers come in the order of the requests. A login and the negotiation of versions send one request
at a time. They are given an ``Exchange``, which may block or wait in an event loop.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kraftspec import __version__
from kraftspec.generated.kafka import ApiVersionsRequest, ApiVersionsResponse
from kraftspec.reference.wire.frames import (
    FRAME_BYTES_MAX,
    UNSUPPORTED_VERSION,
    FrameReader,
    WireError,
    read_correlation_id,
    request_header,
    sized,
)

if TYPE_CHECKING:
    from kraftspec.fastpath.message import Message
    from kraftspec.reference.wire.apis import Versions

SOFTWARE_NAME: Final = "kraftspec"
SOFTWARE_FROM: Final = 3  # KIP-511 added the software's name in version 3 of ApiVersions.
_CORRELATION_ID_MAX: Final = (1 << 31) - 1

# (request, version, class of the response) → the response
Exchange = Callable[[Any, int, Any], Awaitable[Any]]


class VersionsError(WireError):
    """The other side refuses to say which versions it serves; ``code`` is its error code."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class Waiting(NamedTuple):
    """A request that is not answered yet; ``note`` is whatever the caller keeps with it."""

    correlation_id: int
    version: int
    note: Any


class Requests:
    """The requests of one connection that wait for their answers, the oldest first."""

    def __init__(self, client_id: str, bytes_max: int = FRAME_BYTES_MAX) -> None:
        self.client_id = client_id
        self.waiting: deque[Waiting] = deque()
        self._reader = FrameReader(bytes_max=bytes_max)
        self._correlation_id = 0

    def ask(self, request: type[Message], version: int, body: bytes, note: Any = None) -> bytes:
        """Return the frame to send, for the encoded body of a request."""
        self._correlation_id = (self._correlation_id + 1) & _CORRELATION_ID_MAX
        header = request_header(request, version, self._correlation_id, self.client_id)
        self.waiting.append(Waiting(self._correlation_id, version, note))
        return sized(header, body)

    def feed(self, data: bytes) -> None:
        """Add what was received; WireError for nothing, which means that the other side hung up."""
        if not data:
            raise WireError(f"hung up after {self._reader.progress()}")
        self._reader.feed(data)

    def take(self) -> tuple[Waiting, bytes] | None:
        """Return the oldest request and the frame of its answer; None before that is whole.

        Raises WireError for bytes that are no frame, and for an answer to another request.
        """
        try:
            frame = self._reader.take()
        except WireError as error:
            raise WireError(f"answers with {error}: is it Kafka's?") from error
        if frame is None:
            return None
        correlation_id = read_correlation_id(frame)
        if not self.waiting or self.waiting[0].correlation_id != correlation_id:
            due = f"{self.waiting[0].correlation_id} was asked" if self.waiting else "none is due"
            raise WireError(f"answers the request {correlation_id}, and {due}")
        return self.waiting.popleft(), frame


async def negotiate(
    exchange: Exchange, version: int = ApiVersionsRequest.VALID_VERSIONS.stop - 1
) -> Versions:
    """Return which versions the other side serves (ApiVersions).

    Where it does not know our version of that request, a lower one is sent (KIP-511). Raises
    VersionsError, and whatever ``exchange`` raises.
    """
    while True:
        answer = await exchange(api_versions_request(version), version, ApiVersionsResponse)
        versions = {
            api.api_key: range(api.min_version, api.max_version + 1) for api in answer.api_keys
        }
        code = answer.error_code
        if not code:
            return versions
        if code != UNSUPPORTED_VERSION or not version:
            offers = versions.get(ApiVersionsRequest.API_KEY, range(0))
            which = ", which offers that version" if version in offers else ""
            raise VersionsError(code, f"error {code} is the answer to ApiVersions {version}{which}")
        offered = versions.get(ApiVersionsRequest.API_KEY, range(1))
        version = min(max(offered.stop - 1, 0), version - 1)


def api_versions_request(version: int) -> ApiVersionsRequest:
    """Return the ApiVersions request of this software."""
    if version < SOFTWARE_FROM:
        return ApiVersionsRequest()
    return ApiVersionsRequest(
        client_software_name=SOFTWARE_NAME, client_software_version=__version__
    )
