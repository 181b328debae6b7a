package main

import (
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

func text(value string) *string { return &value }

func (w *work) topics(admin *kadm.Client) {
	records, placed := w.name("records"), w.name("placed")
	_, err := admin.CreateTopics(w.ctx, 3, -1, nil, records, w.name("small"))
	if !w.must("create topics", err) {
		return
	}
	configs := map[string]*string{"cleanup.policy": text("compact"), "retention.ms": text("60000")}
	_, err = admin.CreateTopics(w.ctx, 1, 1, configs, placed)
	w.note("create a topic with configs", err)
	_, err = admin.ValidateCreateTopics(w.ctx, 2, 1, nil, records, "go-bad name")
	w.note("validate topics", err)
	_, err = admin.CreatePartitions(w.ctx, 1, w.name("small"), "go-absent")
	w.note("create partitions", err)
	_, err = admin.Metadata(w.ctx)
	w.note("metadata", err)
	_, err = admin.Metadata(w.ctx, records, "go-absent")
	w.note("metadata of topics", err)
	_, err = admin.BrokerMetadata(w.ctx)
	w.note("metadata of brokers", err)
	_, err = admin.ApiVersions(w.ctx)
	w.note("API versions", err)
	_, err = admin.DeleteTopics(w.ctx, w.name("small"), "go-absent")
	w.note("delete topics", err)
}

func (w *work) configs(admin *kadm.Client) {
	topic := w.name("records")
	_, err := admin.DescribeTopicConfigs(w.ctx, topic, "go-absent")
	w.note("describe topic configs", err)
	_, err = admin.DescribeBrokerConfigs(w.ctx, 1)
	w.note("describe broker configs", err)
	changes := []kadm.AlterConfig{
		{Op: kadm.SetConfig, Name: "retention.ms", Value: text("3600000")},
		{Op: kadm.AppendConfig, Name: "cleanup.policy", Value: text("compact")},
		{Op: kadm.DeleteConfig, Name: "segment.bytes"},
	}
	_, err = admin.AlterTopicConfigs(w.ctx, changes, topic, "go-absent")
	w.note("alter topic configs", err)
	state := []kadm.AlterConfig{{Name: "retention.ms", Value: text("3700000")}}
	_, err = admin.AlterTopicConfigsState(w.ctx, state, topic)
	w.note("alter topic configs as a whole", err)
	_, err = admin.ValidateAlterBrokerConfigs(w.ctx, []kadm.AlterConfig{
		{Op: kadm.SetConfig, Name: "message.max.bytes", Value: text("1400000")},
	}, 1)
	w.note("validate broker configs", err)
	_, err = admin.ListConfigResources(w.ctx)
	w.note("list config resources", err)
	who := kadm.ClientQuotaEntity{{Type: "user", Name: text("go")}, {Type: "client-id"}}
	_, err = admin.AlterClientQuotas(w.ctx, []kadm.AlterClientQuotaEntry{{
		Entity: who,
		Ops:    []kadm.AlterClientQuotaOp{{Key: "producer_byte_rate", Value: 1e9}},
	}})
	w.note("alter quotas", err)
	_, err = admin.DescribeClientQuotas(w.ctx, false, []kadm.DescribeClientQuotaComponent{
		{Type: "user", MatchName: text("go"), MatchType: 0},
	})
	w.note("describe quotas", err)
	_, err = admin.UpdateFeatures(w.ctx, true, kadm.FeatureUpdate{
		Feature: "metadata.version", MaxVersionLevel: 99, UpgradeType: 1,
	})
	w.note("update features", err)
}

func (w *work) security(admin *kadm.Client) {
	acl := kadm.NewACLs().Topics(w.name("records")).Groups("*").
		Operations(kadm.OpRead, kadm.OpDescribe).Allow("User:go").AllowHosts("127.0.0.1").
		ResourcePatternType(kadm.ACLPatternLiteral)
	_, err := admin.CreateACLs(w.ctx, acl)
	w.note("create ACLs", err)
	all := kadm.NewACLs().AnyResource().Operations().Allow().AllowHosts().Deny().DenyHosts().
		ResourcePatternType(kadm.ACLPatternAny)
	_, err = admin.DescribeACLs(w.ctx, all)
	w.note("describe ACLs", err)
	_, err = admin.DeleteACLs(w.ctx, acl)
	w.note("delete ACLs", err)
	_, err = admin.AlterUserSCRAMs(w.ctx,
		[]kadm.DeleteSCRAM{{User: "nobody", Mechanism: kadm.ScramSha512}},
		[]kadm.UpsertSCRAM{{
			User: "go", Mechanism: kadm.ScramSha256, Iterations: 4096, Password: "captured-secret",
		}})
	w.note("alter SCRAM users", err)
	_, err = admin.DescribeUserSCRAMs(w.ctx, "go", "nobody")
	w.note("describe SCRAM users", err)
}

func (w *work) placement(admin *kadm.Client) {
	records := w.name("records")
	set := kadm.TopicsSet{}
	set.Add(records, 0, 1)
	_, err := admin.DescribeAllLogDirs(w.ctx, set)
	w.note("describe log directories", err)
	var move kadm.AlterReplicaLogDirsReq
	move.Add("/no-such-directory", set)
	_, err = admin.AlterBrokerReplicaLogDirs(w.ctx, 1, move)
	w.note("alter log directories", err)
	var assign kadm.AlterPartitionAssignmentsReq
	assign.Assign(records, 0, []int32{1, 9})
	assign.CancelAssign(records, 1)
	_, err = admin.AlterPartitionAssignments(w.ctx, assign)
	w.note("alter assignments", err)
	_, err = admin.ListPartitionReassignments(w.ctx, set)
	w.note("list reassignments", err)
	_, err = admin.ElectLeaders(w.ctx, kadm.ElectPreferredReplica, set)
	w.note("elect leaders", err)
	_, err = admin.ListStartOffsets(w.ctx, records)
	w.note("list start offsets", err)
	_, err = admin.ListEndOffsets(w.ctx, records)
	w.note("list end offsets", err)
	_, err = admin.ListCommittedOffsets(w.ctx, records)
	w.note("list committed offsets", err)
	_, err = admin.ListMaxTimestampOffsets(w.ctx, records)
	w.note("list offsets of the latest time", err)
	_, err = admin.ListOffsetsAfterMilli(w.ctx, 1_700_000_000_000, records)
	w.note("list offsets after a time", err)
	epochs := kadm.OffsetForLeaderEpochRequest{}
	epochs.Add(records, 0, 0)
	_, err = admin.OffsetForLeaderEpoch(w.ctx, epochs)
	w.note("offsets for a leader epoch", err)
	offsets := kadm.Offsets{}
	offsets.Add(kadm.Offset{Topic: records, Partition: 0, At: 1})
	_, err = admin.DeleteRecords(w.ctx, offsets)
	w.note("delete records", err)
}

// tokens is what only a user that has logged in may do.
func (w *work) tokens() {
	if w.sasl[0] == "none" {
		return
	}
	login := scram.Auth{User: "go", Pass: "captured-secret"}.AsSha256Mechanism()
	client := w.client(kgo.SeedBrokers(w.sasl...), kgo.SASL(login),
		kgo.RequestRetries(3), kgo.RetryTimeout(3*time.Second))
	admin := kadm.NewClient(client)
	defer admin.Close()
	token, err := admin.CreateDelegationToken(w.ctx, kadm.CreateDelegationToken{
		MaxLifetime: 10 * time.Minute,
		Renewers:    []kadm.Principal{{Type: "User", Name: "bob"}},
	})
	w.note("create a token", err)
	_, err = admin.DescribeDelegationTokens(w.ctx)
	w.note("describe tokens", err)
	if token.HMAC == nil {
		token.HMAC = make([]byte, 32)
	}
	_, err = admin.RenewDelegationToken(w.ctx, token.HMAC, time.Minute)
	w.note("renew a token", err)
	_, err = admin.ExpireDelegationToken(w.ctx, token.HMAC, -1)
	w.note("expire a token", err)
}
