"""Who a peer is, and what it may call: TLS, SASL on both sides, and an authorizer.

`tls` makes ``ssl`` contexts of key stores, `jaas` reads login modules, `sasl` is the exchange of
SaslHandshake and SaslAuthenticate as a server and as a client has it, `scram` the arithmetic of
RFC 5802, `principal` the name that a certificate gives, `authorizer` who may call which API,
`records` what the metadata log says of both. `gate` is all of it, as a node asks it.

Called by the server and the client of the node; it imports only `settings` of the node.
"""
