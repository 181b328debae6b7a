package main

import (
	"reflect"
	"regexp"
	"strings"

	"kraftspec/harness"
)

// kmsg renames many of Kafka's fields. A rule is tried where kmsg's struct has no field of
// Kafka's own name, and holds where what it makes is a field that no other one has taken.
var rules = []struct {
	kafka *regexp.Regexp
	kmsg  string
}{
	{regexp.MustCompile(`(Time)?Ms$`), "Millis"},
	{regexp.MustCompile(`Ms$`), "Millis"},
	{regexp.MustCompile(`^GroupInstanceId$`), "InstanceID"},
	{regexp.MustCompile(`^(Group|Generation|BrokerId|Rack|Leader)s?(Id|Name)s?$`), "$1"},
	{regexp.MustCompile(`^(Group)Ids$|^(Group)sNames$`), "Groups"},
	{regexp.MustCompile(`^(Topic)?Name$`), "Topic"},
	{regexp.MustCompile(`^(Partition)?(Index|Id)$`), "Partition"},
	{regexp.MustCompile(`^Partition(Indexes|Data|Responses)$`), "Partitions"},
	{regexp.MustCompile(`^(Committed|V3AndBelow|Topic|Cluster|SASL)`), ""},
	{
		regexp.MustCompile(`^(Responses|Results|TopicData|TopicResponses|TopicPartitions|` +
			`ReplicaElectionResults|ResultsByTopicV3AndBelow|TransactionPartitions)$`),
		"Topics",
	},
	{regexp.MustCompile(`^(Responses|Results)$`), "Resources"},
	{regexp.MustCompile(`^Results$`), "Groups"},
	{regexp.MustCompile(`^Results$`), "Dirs"},
	{regexp.MustCompile(`^(Entity|Group|Config|Member|Resource|Transaction|Replica)`), ""},
	{regexp.MustCompile(`^(Assignor|Protocol)Name$`), "$1"},
	{regexp.MustCompile(`(Name|Filter|Nodes|Data)$`), ""},
	{regexp.MustCompile(`TimestampMs$`), "Timestamp"},
	{regexp.MustCompile(`^NodeEndpoints$`), "Brokers"},
	{regexp.MustCompile(`^(Replica|Isr)Nodes$`), "${1}s"},
	{regexp.MustCompile(`^IsrNodes$`), "ISR"},
	{regexp.MustCompile(`^Replica`), "Candidate"},
	{regexp.MustCompile(`^Transaction(.*)Ms$`), "${1}Millis"},
	{regexp.MustCompile(`^Transaction(.*)TimestampMs$`), "${1}Timestamp"},
	{regexp.MustCompile(`^TransactionStatus$`), "State"},
	{regexp.MustCompile(`^PatternType(Filter)?$`), "ResourcePatternType"},
	{regexp.MustCompile(`^Key(Type)?$`), "Coordinator$0"},
	{regexp.MustCompile(`^(Member)?Metadata$`), "ProtocolMetadata"},
	{regexp.MustCompile(`^Mechanisms$`), "SupportedMechanisms"},
	{regexp.MustCompile(`^AuthBytes$`), "SASLAuthBytes"},
	{regexp.MustCompile(`^Assignment$`), "MemberAssignment"},
	{regexp.MustCompile(`^TransactionResult$`), "Committed"},
}

// renamed are the fields that no rule finds, by Kafka's name.
var renamed = map[string][]string{
	"Assignments":               {"Assignment", "ReplicaAssignment", "GroupAssignment"},
	"BrokerId":                  {"NodeID"},
	"Committed":                 {"Commit"},
	"TopicResults":              {"Topics"},
	"ResultsByPartition":        {"Partitions"},
	"PartitionResult":           {"Partitions"},
	"Synonyms":                  {"ConfigSynonyms"},
	"LogDir":                    {"Dir"},
	"RecordErrors":              {"ErrorRecords"},
	"PartitionErrorCode":        {"ErrorCode"},
	"PartitionSize":             {"Size"},
	"BatchIndex":                {"RelativeOffset"},
	"BatchIndexErrorMessage":    {"ErrorMessage"},
	"BrokerIds":                 {"Replicas"},
	"AssignedPartitions":        {"Topics"},
	"LogAppendTimeMs":           {"LogAppendTime"},
	"PartitionIds":              {"Partitions"},
	"SessionTimeout":            {"SessionTimeoutMillis"},
	"RebalanceTimeout":          {"RebalanceTimeoutMillis"},
	"ConfigOperation":           {"Op"},
	"ConfigurationKeys":         {"ConfigNames"},
	"DurationFilter":            {"DurationFilterMillis"},
	"ExpiryTimePeriodMs":        {"ExpiryPeriodMillis"},
	"FilterResults":             {"Results"},
	"ForgottenTopicsData":       {"ForgottenTopics"},
	"GenerationIdOrMemberEpoch": {"Generation"},
	"IsFutureKey":               {"IsFuture"},
	"Key":                       {"CoordinatorKey"},
	"KeyType":                   {"CoordinatorType"},
	"Leader":                    {"LeaderID"},
	"NewIsrWithEpochs":          {"NewEpochISR"},
	"Partitions":                {"NumPartitions"},
	"Path":                      {"Dir"},
	"Records":                   {"RecordBatches"},
	"RenewPeriodMs":             {"RenewTimeMillis"},
	"ResultsByTransaction":      {"Transactions"},
	"SubscribedTopicNames":      {"SubscribedTopics"},
	"Tokens":                    {"TokenDetails"},
	"TopicId":                   {"TopidID"},
	"TransactionalId":           {"TransactionID"},
	"TransactionStartTimeMs":    {"StartTimestamp"},
	"UnalignedRecords":          {"Bytes"},
}

// split are the fields whose type changed: under Kafka's name kmsg has the newer one.
var split = map[string]string{"AcceptableRecoveryLag": "AcceptableRecoveryLagLegacy"}

// fieldNames finds the index in kmsg's struct of each field of a schema, nil for none.
func fieldNames(fields []harness.SchemaField, goType reflect.Type) [][]int {
	free := make(map[string]int)
	for i := range goType.NumField() {
		if name := goType.Field(i).Name; name != "UnknownTags" {
			free[strings.ToLower(name)] = i
		}
	}
	found := make([][]int, len(fields))
	take := func(at int, name string) bool {
		index, ok := free[strings.ToLower(name)]
		if ok {
			found[at] = []int{index}
			delete(free, strings.ToLower(name))
		}
		return ok
	}
	for at := range fields {
		if !take(at, split[fields[at].Name]) {
			take(at, fields[at].Name) // All of Kafka's own names first.
		}
	}
	for at := range fields {
		if found[at] == nil {
			for _, name := range candidates(fields[at].Name) {
				if take(at, name) {
					break
				}
			}
		}
	}
	return found
}

func candidates(name string) []string {
	name = strings.ToUpper(name[:1]) + name[1:]
	out := append([]string(nil), renamed[name]...)
	for _, rule := range rules {
		if rule.kafka.MatchString(name) {
			out = append(out, rule.kafka.ReplaceAllString(name, rule.kmsg))
		}
	}
	return out
}
