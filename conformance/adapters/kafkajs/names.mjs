// Where kafkajs says another name than the schema.

import { Names } from '../node/values.mjs'

const TOPICS = { 'topics.name': 'topic' }
const ACL_FILTER = {
  resourceTypeFilter: 'resourceType',
  resourceNameFilter: 'resourceName',
  patternTypeFilter: 'resourcePatternType',
  principalFilter: 'principal',
  hostFilter: 'host'
}
const RESPONSES = { topics: 'responses', 'topics.name': 'topic' }

const under = (path, names) =>
  Object.fromEntries(Object.entries(names).map(([field, name]) => [`${path}.${field}`, name]))

// By the field's own name, in all messages.
const common = {
  // From some version on the client itself keeps to this time, and says so under another name.
  throttleTimeMs: 'clientSideThrottleTime|throttleTimeMs|throttleTime',
  timeoutMs: 'timeout',
  partitionIndex: 'partition',
  committedOffset: 'offset',
  committedMetadata: 'metadata'
}

const fields = {
  AddPartitionsToTxnRequest: {
    v3AndBelowTransactionalId: 'transactionalId',
    v3AndBelowProducerId: 'producerId',
    v3AndBelowProducerEpoch: 'producerEpoch',
    v3AndBelowTopics: 'topics',
    'v3AndBelowTopics.name': 'topic'
  },
  AddPartitionsToTxnResponse: {
    resultsByTopicV3AndBelow: 'errors',
    ...under('resultsByTopicV3AndBelow', {
      name: 'topic',
      resultsByPartition: 'partitionErrors',
      'resultsByPartition.partitionErrorCode': 'errorCode'
    })
  },
  AlterConfigsRequest: under('resources', {
    resourceType: 'type', resourceName: 'name', configs: 'configEntries'
  }),
  AlterConfigsResponse: { responses: 'resources' },
  AlterPartitionReassignmentsRequest: { ...TOPICS, 'topics.partitions': 'partitionAssignment' },
  AlterPartitionReassignmentsResponse: { 'responses.name': 'topic' },
  ApiVersionsResponse: { apiKeys: 'apiVersions' },
  CreateAclsResponse: { results: 'creationResponses' },
  CreatePartitionsRequest: { ...TOPICS, topics: 'topicPartitions' },
  CreatePartitionsResponse: { results: 'topicErrors', 'results.name': 'topic' },
  CreateTopicsRequest: {
    ...TOPICS,
    'topics.assignments': 'replicaAssignment',
    'topics.assignments.brokerIds': 'replicas',
    'topics.configs': 'configEntries'
  },
  CreateTopicsResponse: { ...TOPICS, topics: 'topicErrors' },
  DeleteAclsRequest: under('filters', ACL_FILTER),
  DeleteAclsResponse: {
    filterResults: 'filterResponses', 'filterResults.matchingAcls.patternType': 'resourcePatternType'
  },
  DeleteRecordsRequest: TOPICS,
  DeleteRecordsResponse: TOPICS,
  DeleteTopicsRequest: { topicNames: 'topics' },
  DeleteTopicsResponse: { responses: 'topicErrors', 'responses.name': 'topic' },
  DescribeAclsRequest: ACL_FILTER,
  DescribeAclsResponse: { 'resources.patternType': 'resourcePatternType' },
  DescribeConfigsRequest: under('resources', {
    resourceType: 'type', resourceName: 'name', configurationKeys: 'configNames'
  }),
  DescribeConfigsResponse: {
    results: 'resources',
    'results.configs': 'configEntries',
    ...under('results.configs', {
      name: 'configName', value: 'configValue', synonyms: 'configSynonyms'
    }),
    ...under('results.configs.synonyms', {
      name: 'configName', value: 'configValue', source: 'configSource'
    })
  },
  DescribeGroupsRequest: { groups: 'groupIds' },
  DescribeGroupsResponse: under('groups', { groupState: 'state', protocolData: 'protocol' }),
  EndTxnRequest: { committed: 'transactionResult' },
  FetchRequest: {
    maxWaitMs: 'maxWaitTime',
    'topics.partitions.partitionMaxBytes': 'maxBytes',
    forgottenTopicsData: 'forgottenTopics'
  },
  FetchResponse: {
    'responses.topic': 'topicName', 'responses.partitions.logStartOffset': 'lastStartOffset'
  },
  FindCoordinatorRequest: { key: 'coordinatorKey|groupId', keyType: 'coordinatorType' },
  FindCoordinatorResponse: {
    nodeId: 'coordinator.nodeId', host: 'coordinator.host', port: 'coordinator.port'
  },
  HeartbeatRequest: { generationId: 'groupGenerationId' },
  InitProducerIdRequest: { transactionTimeoutMs: 'transactionTimeout' },
  JoinGroupRequest: {
    sessionTimeoutMs: 'sessionTimeout',
    rebalanceTimeoutMs: 'rebalanceTimeout',
    protocols: 'groupProtocols'
  },
  JoinGroupResponse: {
    protocolName: 'groupProtocol', leader: 'leaderId', 'members.metadata': 'memberMetadata'
  },
  ListOffsetsRequest: TOPICS,
  ListOffsetsResponse: RESPONSES,
  ListPartitionReassignmentsRequest: { ...TOPICS, 'topics.partitionIndexes': 'partitions' },
  MetadataResponse: {
    topics: 'topicMetadata',
    ...under('topics', {
      errorCode: 'topicErrorCode',
      name: 'topic',
      partitions: 'partitionMetadata',
      'partitions.errorCode': 'partitionErrorCode',
      'partitions.partitionIndex': 'partitionId',
      'partitions.leaderId': 'leader',
      'partitions.replicaNodes': 'replicas',
      'partitions.isrNodes': 'isr'
    })
  },
  OffsetCommitRequest: {
    ...TOPICS,
    generationIdOrMemberEpoch: 'groupGenerationId',
    retentionTimeMs: 'retentionTime'
  },
  OffsetCommitResponse: RESPONSES,
  OffsetFetchRequest: { ...TOPICS, 'topics.partitionIndexes': 'partitions' },
  OffsetFetchResponse: RESPONSES,
  ProduceResponse: {
    responses: 'topics',
    'responses.name': 'topicName',
    'responses.partitionResponses': 'partitions',
    'responses.partitionResponses.index': 'partition',
    'responses.partitionResponses.logAppendTimeMs': 'logAppendTime'
  },
  SaslHandshakeResponse: { mechanisms: 'enabledMechanisms' },
  SyncGroupRequest: { assignments: 'groupAssignment', 'assignments.assignment': 'memberAssignment' },
  SyncGroupResponse: { assignment: 'memberAssignment' },
  TxnOffsetCommitRequest: TOPICS,
  TxnOffsetCommitResponse: TOPICS
}

const oneField = {
  'CreatePartitionsRequest.topics.assignments': 'brokerIds',
  'MetadataRequest.topics': 'name'
}
const wrapped = { 'OffsetFetchRequest.topics.partitionIndexes': 'partition' }

export const NAMES = new Names({ fields, common, oneField, wrapped })

// Requests that take the value of one field in the place of an object.
export const WHOLE = { DeleteGroupsRequest: 'groupsNames' }
