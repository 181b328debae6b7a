module kraftspec/driving

go 1.26.0
