"""What every Kafka connection has in common: frames, headers, correlation ids, versions.

`frames` cuts a stream of bytes into frames, and reads and writes their headers. `apis` says which
messages an API has and which of its versions two sides share. `client` is the asking side of a
connection without a socket: the requests that wait for answers, and the negotiation of versions
(KIP-511). `blocking` is that client on a blocking socket; the node has it on asyncio
(`kraftspec.reference.node.client`).

The version of a header is decided by the message (`Message.header_version`) and nowhere else;
docs/headers.md has the rule.
Nothing here imports the rest of `kraftspec.reference`.
"""
