module kraftspec/adapter

go 1.26.0

require (
	github.com/twmb/franz-go/pkg/kmsg v1.15.0
	kraftspec/harness v0.0.0
)

replace kraftspec/harness => ../go
