package main

import (
	"reflect"
	"strings"

	"kraftspec/harness"
)

// renamed are sarama's names for fields of Kafka's, where they differ by more than case.
var renamed = map[string][]string{
	"Acks":                      {"RequiredAcks"},
	"AssignedPartitions":        {"Topics"},
	"Assignment":                {"MemberAssignment"},
	"Assignments":               {"GroupAssignments", "ReplicaAssignment", "Assignment"},
	"AuthBytes":                 {"SaslAuthBytes"},
	"BaseOffset":                {"Offset"},
	"Committed":                 {"TransactionResult"},
	"CommittedLeaderEpoch":      {"LeaderEpoch"},
	"CommittedMetadata":         {"Metadata"},
	"CommittedOffset":           {"Offset"},
	"ConfigOperation":           {"Operation"},
	"ConfigSource":              {"Source"},
	"ConfigType":                {"Type"},
	"Configs":                   {"ConfigEntries"},
	"ConfigurationKeys":         {"ConfigNames"},
	"Creations":                 {"AclCreations"},
	"CurrentLeaderEpoch":        {"CurrentLeaderEpoch"},
	"ElectionType":              {"Type"},
	"EntityName":                {"Name"},
	"ErrorCode":                 {"Err"},
	"ErrorMessage":              {"ErrMsg", "ErrorMsg"},
	"FilterResults":             {"FilterResponses"},
	"ForgottenTopicsData":       {"forgotten"},
	"GenerationId":              {"ConsumerGroupGeneration"},
	"GenerationIdOrMemberEpoch": {"ConsumerGroupGeneration", "GenerationID"},
	"GroupId":                   {"ConsumerGroup", "Group"},
	"GroupState":                {"State"},
	"GroupsNames":               {"Groups"},
	"HighWatermark":             {"HighWaterMarkOffset"},
	"HostFilter":                {"Host"},
	"Index":                     {"ID"},
	"IsDefault":                 {"Default"},
	"IsFutureKey":               {"IsTemporary"},
	"IsSensitive":               {"Sensitive"},
	"IsolationLevel":            {"Isolation"},
	"IsrNodes":                  {"Isr"},
	"Key":                       {"CoordinatorKey"},
	"KeyType":                   {"CoordinatorType"},
	"Leader":                    {"LeaderId"},
	"LeaderId":                  {"Leader"},
	"LogAppendTimeMs":           {"Timestamp"},
	"LogDir":                    {"Path"},
	"LogStartOffset":            {"StartOffset"},
	"MaxWaitMs":                 {"MaxWaitTime"},
	"Mechanisms":                {"EnabledMechanisms"},
	"MemberId":                  {"ConsumerID"},
	"Name":                      {"Topic", "ConfigName"},
	"NodeId":                    {"id"},
	"PartitionErrorCode":        {"Err"},
	"PartitionIndex":            {"Partition", "ID", "PartitionID"},
	"PartitionMaxBytes":         {"maxBytes"},
	"PartitionSize":             {"Size"},
	"Partitions":                {"PartitionOffsets", "PartitionIDs"},
	"PatternType":               {"ResourcePatternType"},
	"PatternTypeFilter":         {"ResourcePatternTypeFilter"},
	"PrincipalFilter":           {"Principal"},
	"ProtocolData":              {"Protocol"},
	"ProtocolName":              {"GroupProtocol"},
	"Protocols":                 {"OrderedGroupProtocols"},
	"RebalanceTimeoutMs":        {"RebalanceTimeout"},
	"ReplicaNodes":              {"Replicas"},
	"ResourceName":              {"Name"},
	"ResourceNameFilter":        {"ResourceName"},
	"ResourceType":              {"Type"},
	"ResourceTypeFilter":        {"ResourceType"},
	"Resources":                 {"ResourceAcls"},
	"Responses":                 {"Resources", "Blocks", "Errors"},
	"Results":                   {"AclCreationResponses", "TopicPartitionErrors", "GroupErrorCodes", "Resources", "LogDirs"},
	"ResultsByTopicV3AndBelow":  {"Errors"},
	"RetentionTimeMs":           {"RetentionTime"},
	"SessionTimeoutMs":          {"SessionTimeout"},
	"ThrottleTimeMs":            {"ThrottleTime"},
	"TimeoutMs":                 {"Timeout"},
	"TopicData":                 {"records"},
	"TopicId":                   {"Uuid"},
	"TopicNames":                {"Topics"},
	"Topics":                    {"TopicDetails", "TopicPartitions", "Partitions", "Blocks", "TopicStatus", "Errors", "DescribeTopics"},
	"TransactionStartTimeMs":    {"TransactionStartTime"},
	"TransactionTimeoutMs":      {"TransactionTimeout"},
	"Users":                     {"DescribeUsers"},
	"V3AndBelowProducerEpoch":   {"ProducerEpoch"},
	"V3AndBelowProducerId":      {"ProducerID"},
	"V3AndBelowTopics":          {"TopicPartitions"},
	"V3AndBelowTransactionalId": {"TransactionalID"},
	"Value":                     {"ConfigValue"},
	"timeoutMs":                 {"Timeout"},
}

// finder finds the index in sarama's struct of each field of a schema, nil for none. The fields that
// a version has come before all others.
func finder(version int16) func([]harness.SchemaField, reflect.Type) [][]int {
	return func(fields []harness.SchemaField, goType reflect.Type) [][]int {
		free := make(map[string][]int)
		for _, f := range reflect.VisibleFields(goType) {
			if !f.Anonymous && f.Name != "Version" {
				free[strings.ToLower(f.Name)] = f.Index
			}
		}
		found := make([][]int, len(fields))
		for _, now := range []bool{true, false} {
			for _, candidates := range []func(string) []string{
				func(name string) []string { return []string{name} }, // All of Kafka's own names first.
				func(name string) []string { return renamed[name] },
			} {
				for at := range fields {
					if found[at] != nil || inVersion(&fields[at], version) != now {
						continue
					}
					for _, name := range candidates(fields[at].Name) {
						if index, ok := free[strings.ToLower(name)]; ok {
							found[at] = index
							delete(free, strings.ToLower(name))
							break
						}
					}
				}
			}
		}
		return found
	}
}

func inVersion(field *harness.SchemaField, version int16) bool {
	versions, err := harness.ParseVersions(field.Versions, harness.Versions{Last: versionMax})
	return err == nil && versions.Has(version)
}

// inOrder puts the fields that a version has before the others.
func inOrder(fields []harness.SchemaField, version int16) (out []harness.SchemaField) {
	for _, now := range []bool{true, false} {
		for _, field := range fields {
			if inVersion(&field, version) == now {
				field.Fields = inOrder(field.Fields, version)
				out = append(out, field)
			}
		}
	}
	return out
}
