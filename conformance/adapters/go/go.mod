module kraftspec/harness

go 1.26.0
