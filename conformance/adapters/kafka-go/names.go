package main

import (
	"reflect"
	"strings"

	"kraftspec/harness"
)

// renamed are kafka-go's names for fields of Kafka's, where they differ by more than case.
var renamed = map[string][]string{
	"Assignment":                {"Assignments"},
	"CommittedLeaderEpoch":      {"ComittedLeaderEpoch"},
	"Documentation":             {"ConfigDocumentation"},
	"Source":                    {"ConfigSource"},
	"Synonyms":                  {"ConfigSynonyms"},
	"Value":                     {"ConfigValue"},
	"Configs":                   {"ConfigEntries"},
	"Index":                     {"Partition"},
	"LogAppendTimeMs":           {"LogAppendTime"},
	"PartitionData":             {"Partitions"},
	"PartitionErrorCode":        {"ErrorCode"},
	"PartitionResponses":        {"Partitions"},
	"Records":                   {"RecordSet"},
	"ConfigurationKeys":         {"ConfigNames"},
	"Entity":                    {"Entities"},
	"Entries":                   {"Results"},
	"ForgottenTopicsData":       {"ForgottenTopics"},
	"GenerationIdOrMemberEpoch": {"GenerationID"},
	"GroupsNames":               {"GroupIDs"},
	"Leader":                    {"LeaderID"},
	"MaxWaitMs":                 {"MaxWaitTime"},
	"Name":                      {"Topic", "ConfigName"},
	"PartitionIndex":            {"Partition"},
	"PartitionResult":           {"PartitionResults"},
	"Partitions":                {"PartitionIDs"},
	"PatternType":               {"ResourcePatternType"},
	"PatternTypeFilter":         {"ResourcePatternTypeFilter"},
	"Responses":                 {"Results", "Topics"},
	"Results":                   {"Responses", "Resources"},
	"ResultsByPartition":        {"Results"},
	"ResultsByTopicV3AndBelow":  {"Results"},
	"ThrottleTimeMs":            {"ThrottleTime"},
	"TimeoutMs":                 {"Timeout"},
	"TopicData":                 {"Topics"},
	"Topics":                    {"TopicNames"},
	"V3AndBelowProducerEpoch":   {"ProducerEpoch"},
	"V3AndBelowProducerId":      {"ProducerID"},
	"V3AndBelowTopics":          {"Topics"},
	"V3AndBelowTransactionalId": {"TransactionalID"},
}

// inner is a struct that holds fields which are Kafka's message's own.
const inner = "Filter"

// fieldNames finds the index in kafka-go's struct of each field of a schema, nil for none.
func fieldNames(fields []harness.SchemaField, goType reflect.Type) [][]int {
	free := make(map[string][]int)
	for i := range goType.NumField() {
		f := goType.Field(i)
		if f.IsExported() && f.Tag.Get("kafka") != "-" {
			free[strings.ToLower(f.Name)] = f.Index
		}
	}
	if f, ok := goType.FieldByName(inner); ok {
		for i := range f.Type.NumField() {
			free[strings.ToLower(f.Type.Field(i).Name)] = append(f.Index[:1:1], i)
		}
	}
	found := make([][]int, len(fields))
	take := func(at int, name string) bool {
		index, ok := free[strings.ToLower(name)]
		if ok {
			found[at] = index
			delete(free, strings.ToLower(name))
		}
		return ok
	}
	for at := range fields {
		take(at, fields[at].Name) // All of Kafka's own names first.
	}
	for at := range fields {
		for _, name := range renamed[fields[at].Name] {
			if found[at] == nil && take(at, name) {
				break
			}
		}
	}
	return found
}
