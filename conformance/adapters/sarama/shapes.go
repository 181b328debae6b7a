package main

import (
	"encoding/json"
	"net"
	"strconv"

	"kraftspec/harness"
)

// shape is how the JSON of a message differs from sarama's structs by more than names.
type shape struct {
	fields func(fields []harness.SchemaField, version int16) []harness.SchemaField
	in     func(value map[string]any, version int16) error
	out    func(value map[string]any, version int16)
}

var shapes = map[string]shape{
	"MetadataResponse":             {fields: brokerFields, in: joinBrokers, out: splitBrokers},
	"FindCoordinatorResponse":      {fields: coordinatorFields, in: joinCoordinator, out: splitCoordinator},
	"AlterClientQuotasRequest":     {entityFields, matchEntities, namelessEntities},
	"AlterClientQuotasResponse":    {entityFields, matchEntities, namelessEntities},
	"DescribeClientQuotasResponse": {entityFields, matchEntities, namelessEntities},
	"AlterUserScramCredentialsRequest": {
		in: func(value map[string]any, _ int16) error {
			if upsertions, ok := value["upsertions"].([]any); ok && len(upsertions) > 0 {
				return &harness.Skipped{Reason: "sarama takes a password, and salts it itself"}
			}
			return nil
		},
	},
	"CreateTopicsResponse": apart("Topics", part{"TopicErrors", []string{"ErrorCode", "ErrorMessage"}},
		part{"TopicResults", []string{
			"TopicId", "TopicConfigErrorCode", "NumPartitions", "ReplicationFactor", "Configs",
		}}),
	"DeleteTopicsResponse": apart("Responses", part{"TopicErrorCodes", []string{"ErrorCode"}},
		part{"TopicErrorMessages", []string{"ErrorMessage"}}, part{"TopicIds", []string{"TopicId"}}),
	"ListGroupsResponse": apart("Groups", part{"Groups", []string{"ProtocolType"}},
		part{"GroupsData", []string{"GroupState", "GroupType"}}),
}

const unknownTags = "_unknownTaggedFields"

// A part is one of several maps that sarama has for an array, with the same keys.
type part struct {
	name   string
	fields []string
}

// apart lays an array out in parts; those of which a version has no field are left out.
func apart(array string, parts ...part) shape {
	keys := make(map[int16]string) // in JSON, by version
	names := make(map[int16]map[string][]string)
	fields := func(all []harness.SchemaField, version int16) (out []harness.SchemaField) {
		names[version] = make(map[string][]string)
		for _, field := range all {
			if field.Name != array {
				out = append(out, field)
				continue
			}
			key := field.Fields[0]
			keys[version] = jsonName(key.Name)
			for _, one := range parts {
				split := field
				split.Name, split.Fields = one.name, []harness.SchemaField{key}
				for _, inner := range field.Fields[1:] {
					versions, _ := harness.ParseVersions(inner.Versions, harness.Versions{})
					for _, name := range one.fields {
						if name == inner.Name && versions.Has(version) {
							split.Fields = append(split.Fields, inner)
							names[version][one.name] = append(names[version][one.name], jsonName(name))
						}
					}
				}
				if len(split.Fields) > 1 {
					out = append(out, split)
				}
			}
		}
		return out
	}
	in := func(value map[string]any, version int16) error {
		given, ok := value[jsonName(array)].([]any)
		if !ok { // Null, or no array: one of the parts says so.
			for name := range names[version] {
				value[jsonName(name)] = value[jsonName(array)]
			}
			return nil
		}
		delete(value, jsonName(array))
		for name, held := range names[version] {
			split := make([]any, len(given))
			for i, element := range given {
				whole, ok := element.(map[string]any)
				if !ok {
					split[i] = element
					continue
				}
				entry := make(map[string]any)
				for _, field := range append([]string{keys[version], unknownTags}, held...) {
					if one, ok := whole[field]; ok {
						entry[field] = one
					}
				}
				split[i] = entry
			}
			value[jsonName(name)] = split
		}
		return nil
	}
	out := func(value map[string]any, version int16) {
		var joined []any
		for name := range names[version] {
			held, _ := value[jsonName(name)].([]any)
			delete(value, jsonName(name))
			if joined == nil {
				joined = held
				continue
			}
			for i, entry := range held {
				for field, one := range entry.(map[string]any) {
					joined[i].(map[string]any)[field] = one
				}
			}
		}
		value[jsonName(array)] = joined
	}
	return shape{fields, in, out}
}

func jsonName(name string) string { return string(name[0]|0x20) + name[1:] }

// A broker of sarama has host and port as one text.
var addrField = harness.SchemaField{Name: "Addr", Type: "string", Versions: "0+"}

func withoutAddress(fields []harness.SchemaField) (out []harness.SchemaField) {
	for _, field := range fields {
		if field.Name != "Host" && field.Name != "Port" {
			out = append(out, field)
		}
	}
	return out
}

func brokerFields(fields []harness.SchemaField, _ int16) []harness.SchemaField {
	for i := range fields {
		if fields[i].Name == "Brokers" {
			fields[i].Fields = append(withoutAddress(fields[i].Fields), addrField)
		}
	}
	return fields
}

func join(broker map[string]any) error {
	host, ok := broker["host"].(string)
	port, number := broker["port"].(json.Number)
	if !ok || !number {
		return harness.Wrong("wrong_type", "brokers", "a broker has a host and a port")
	}
	delete(broker, "host")
	delete(broker, "port")
	broker["addr"] = net.JoinHostPort(host, string(port))
	return nil
}

func split(broker map[string]any) {
	address, _ := broker["addr"].(string)
	delete(broker, "addr")
	host, port, _ := net.SplitHostPort(address)
	number, _ := strconv.ParseInt(port, 10, 32)
	broker["host"], broker["port"] = host, number
}

func joinBrokers(value map[string]any, _ int16) error {
	brokers, _ := value["brokers"].([]any)
	for _, broker := range brokers {
		if object, ok := broker.(map[string]any); ok {
			if err := join(object); err != nil {
				return err
			}
		}
	}
	return nil
}

func splitBrokers(value map[string]any, _ int16) {
	for _, broker := range value["brokers"].([]any) {
		split(broker.(map[string]any))
	}
}

func coordinatorFields(fields []harness.SchemaField, version int16) (out []harness.SchemaField) {
	broker := harness.SchemaField{Name: "Coordinator", Type: "Coordinator", Versions: "0+"}
	for _, field := range withoutAddress(fields) {
		if field.Name == "NodeId" {
			broker.Fields = []harness.SchemaField{field, addrField}
		} else {
			out = append(out, field)
		}
	}
	return append(out, broker)
}

func joinCoordinator(value map[string]any, _ int16) error {
	broker := make(map[string]any)
	for _, name := range []string{"nodeId", "host", "port"} {
		if given, ok := value[name]; ok {
			broker[name] = given
			delete(value, name)
		}
	}
	value["coordinator"] = broker
	return join(broker)
}

func splitCoordinator(value map[string]any, _ int16) {
	broker, ok := value["coordinator"].(map[string]any)
	delete(value, "coordinator")
	if ok { // Otherwise sarama has kept nothing of it.
		split(broker)
		for name, held := range broker {
			value[name] = held
		}
	}
}

// The entity of a quota has no null: its name is the default's by another field.
var matchField = harness.SchemaField{Name: "MatchType", Type: "int8", Versions: "0+"}

const defaultMatch = 1

func entityFields(fields []harness.SchemaField, version int16) []harness.SchemaField {
	for i := range fields {
		if fields[i].Name == "Entity" {
			fields[i].Fields = append(fields[i].Fields, matchField)
		}
		fields[i].Fields = entityFields(fields[i].Fields, version)
	}
	return fields
}

func eachEntity(value map[string]any, do func(entity map[string]any)) {
	entries, _ := value["entries"].([]any)
	for _, entry := range entries {
		held, _ := entry.(map[string]any)
		entities, _ := held["entity"].([]any)
		for _, entity := range entities {
			if one, ok := entity.(map[string]any); ok {
				do(one)
			}
		}
	}
}

func matchEntities(value map[string]any, _ int16) error {
	eachEntity(value, func(entity map[string]any) {
		entity["matchType"] = json.Number("0")
		if name, ok := entity["entityName"]; ok && name == nil {
			entity["matchType"] = json.Number(strconv.Itoa(defaultMatch))
		}
	})
	return nil
}

func namelessEntities(value map[string]any, _ int16) {
	eachEntity(value, func(entity map[string]any) {
		if entity["matchType"] == int64(defaultMatch) {
			entity["entityName"] = nil
		}
		delete(entity, "matchType")
	})
}
