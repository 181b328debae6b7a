// The build copies this file into sarama's package: its encoders and decoders are not exported.
package sarama

// Body is a request or a response of one API and version.
type Body = protocolBody

// NewBody is an empty body, nil where sarama does not have the API.
func NewBody(key, version int16, response bool) Body {
	if response {
		return allocateResponseBody(key, version)
	}
	return allocateBody(key, version)
}

// HasVersion tells whether sarama says that it has the version of a body.
func HasVersion(body Body) bool { return body.isValidVersion() }

// EncodeBody writes a body as a broker's connection does.
func EncodeBody(body Body) ([]byte, error) { return encode(body, nil) }

// DecodeBody reads a body as a broker's connection does: all bytes must be used.
func DecodeBody(data []byte, body Body, version int16) error {
	return versionedDecode(data, body, version, nil)
}

// EncodeMember writes what a member of a consumer group gives to the others, its version first.
func EncodeMember(member any) ([]byte, error) { return encode(member.(encoder), nil) }

// DecodeMember reads what a member of a consumer group gave.
func DecodeMember(data []byte, member any) error { return decode(data, member.(decoder), nil) }

// UseReplica says that the id of a replica in a request is to be written, also that of a client.
func UseReplica(request *OffsetRequest) { request.isReplicaIDSet = true }
