module kraftspec/sarama

go 1.24
