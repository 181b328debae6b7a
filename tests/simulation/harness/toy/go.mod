module kraftspec/toy

go 1.24
