package main

import (
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/addoffsetstotxn"
	"github.com/segmentio/kafka-go/protocol/addpartitionstotxn"
	"github.com/segmentio/kafka-go/protocol/alterclientquotas"
	"github.com/segmentio/kafka-go/protocol/alterconfigs"
	"github.com/segmentio/kafka-go/protocol/alterpartitionreassignments"
	"github.com/segmentio/kafka-go/protocol/alteruserscramcredentials"
	"github.com/segmentio/kafka-go/protocol/apiversions"
	"github.com/segmentio/kafka-go/protocol/createacls"
	"github.com/segmentio/kafka-go/protocol/createpartitions"
	"github.com/segmentio/kafka-go/protocol/createtopics"
	"github.com/segmentio/kafka-go/protocol/deleteacls"
	"github.com/segmentio/kafka-go/protocol/deletegroups"
	"github.com/segmentio/kafka-go/protocol/deletetopics"
	"github.com/segmentio/kafka-go/protocol/describeacls"
	"github.com/segmentio/kafka-go/protocol/describeclientquotas"
	"github.com/segmentio/kafka-go/protocol/describeconfigs"
	"github.com/segmentio/kafka-go/protocol/describegroups"
	"github.com/segmentio/kafka-go/protocol/describeuserscramcredentials"
	"github.com/segmentio/kafka-go/protocol/electleaders"
	"github.com/segmentio/kafka-go/protocol/endtxn"
	"github.com/segmentio/kafka-go/protocol/fetch"
	"github.com/segmentio/kafka-go/protocol/findcoordinator"
	"github.com/segmentio/kafka-go/protocol/heartbeat"
	"github.com/segmentio/kafka-go/protocol/incrementalalterconfigs"
	"github.com/segmentio/kafka-go/protocol/initproducerid"
	"github.com/segmentio/kafka-go/protocol/joingroup"
	"github.com/segmentio/kafka-go/protocol/leavegroup"
	"github.com/segmentio/kafka-go/protocol/listgroups"
	"github.com/segmentio/kafka-go/protocol/listoffsets"
	"github.com/segmentio/kafka-go/protocol/listpartitionreassignments"
	"github.com/segmentio/kafka-go/protocol/metadata"
	"github.com/segmentio/kafka-go/protocol/offsetcommit"
	"github.com/segmentio/kafka-go/protocol/offsetdelete"
	"github.com/segmentio/kafka-go/protocol/offsetfetch"
	"github.com/segmentio/kafka-go/protocol/produce"
	"github.com/segmentio/kafka-go/protocol/saslauthenticate"
	"github.com/segmentio/kafka-go/protocol/saslhandshake"
	"github.com/segmentio/kafka-go/protocol/syncgroup"
	"github.com/segmentio/kafka-go/protocol/txnoffsetcommit"
)

// pairs makes the request and the response of each API that kafka-go has.
var pairs = map[protocol.ApiKey][2]func() protocol.Message{
	protocol.AddOffsetsToTxn:              of[addoffsetstotxn.Request, addoffsetstotxn.Response](),
	protocol.AddPartitionsToTxn:           of[addpartitionstotxn.Request, addpartitionstotxn.Response](),
	protocol.AlterClientQuotas:            of[alterclientquotas.Request, alterclientquotas.Response](),
	protocol.AlterConfigs:                 of[alterconfigs.Request, alterconfigs.Response](),
	protocol.AlterPartitionReassignments:  of[alterpartitionreassignments.Request, alterpartitionreassignments.Response](),
	protocol.AlterUserScramCredentials:    of[alteruserscramcredentials.Request, alteruserscramcredentials.Response](),
	protocol.ApiVersions:                  of[apiversions.Request, apiversions.Response](),
	protocol.CreateAcls:                   of[createacls.Request, createacls.Response](),
	protocol.CreatePartitions:             of[createpartitions.Request, createpartitions.Response](),
	protocol.CreateTopics:                 of[createtopics.Request, createtopics.Response](),
	protocol.DeleteAcls:                   of[deleteacls.Request, deleteacls.Response](),
	protocol.DeleteGroups:                 of[deletegroups.Request, deletegroups.Response](),
	protocol.DeleteTopics:                 of[deletetopics.Request, deletetopics.Response](),
	protocol.DescribeAcls:                 of[describeacls.Request, describeacls.Response](),
	protocol.DescribeClientQuotas:         of[describeclientquotas.Request, describeclientquotas.Response](),
	protocol.DescribeConfigs:              of[describeconfigs.Request, describeconfigs.Response](),
	protocol.DescribeGroups:               of[describegroups.Request, describegroups.Response](),
	protocol.DescribeUserScramCredentials: of[describeuserscramcredentials.Request, describeuserscramcredentials.Response](),
	protocol.ElectLeaders:                 of[electleaders.Request, electleaders.Response](),
	protocol.EndTxn:                       of[endtxn.Request, endtxn.Response](),
	protocol.Fetch:                        of[fetch.Request, fetch.Response](),
	protocol.FindCoordinator:              of[findcoordinator.Request, findcoordinator.Response](),
	protocol.Heartbeat:                    of[heartbeat.Request, heartbeat.Response](),
	protocol.IncrementalAlterConfigs:      of[incrementalalterconfigs.Request, incrementalalterconfigs.Response](),
	protocol.InitProducerId:               of[initproducerid.Request, initproducerid.Response](),
	protocol.JoinGroup:                    of[joingroup.Request, joingroup.Response](),
	protocol.LeaveGroup:                   of[leavegroup.Request, leavegroup.Response](),
	protocol.ListGroups:                   of[listgroups.Request, listgroups.Response](),
	protocol.ListOffsets:                  of[listoffsets.Request, listoffsets.Response](),
	protocol.ListPartitionReassignments:   of[listpartitionreassignments.Request, listpartitionreassignments.Response](),
	protocol.Metadata:                     of[metadata.Request, metadata.Response](),
	protocol.OffsetCommit:                 of[offsetcommit.Request, offsetcommit.Response](),
	protocol.OffsetDelete:                 of[offsetdelete.Request, offsetdelete.Response](),
	protocol.OffsetFetch:                  of[offsetfetch.Request, offsetfetch.Response](),
	protocol.Produce:                      of[produce.Request, produce.Response](),
	protocol.SaslAuthenticate:             of[saslauthenticate.Request, saslauthenticate.Response](),
	protocol.SaslHandshake:                of[saslhandshake.Request, saslhandshake.Response](),
	protocol.SyncGroup:                    of[syncgroup.Request, syncgroup.Response](),
	protocol.TxnOffsetCommit:              of[txnoffsetcommit.Request, txnoffsetcommit.Response](),
}

type pointer[T any] interface {
	*T
	protocol.Message
}

func of[Request, Response any, Q pointer[Request], S pointer[Response]]() [2]func() protocol.Message {
	return [2]func() protocol.Message{
		func() protocol.Message { return Q(new(Request)) },
		func() protocol.Message { return S(new(Response)) },
	}
}
