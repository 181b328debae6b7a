// Where the client says another name than the schema; '' renames the message itself: one argument
// holds all of it.

import { Names } from './values.mjs'

const ACL_FILTER = {
  resourceTypeFilter: 'resourceType',
  resourceNameFilter: 'resourceName',
  patternTypeFilter: 'resourcePatternType',
  principalFilter: 'principal',
  hostFilter: 'host'
}

const under = (path, names) =>
  Object.fromEntries(Object.entries(names).map(([field, name]) => [`${path}.${field}`, name]))

const fields = {
  AddPartitionsToTxnResponse: {
    resultsByTopicV3AndBelow: 'resultsByTransaction.0.topicResults'
  },
  AlterClientQuotasRequest: { 'entries.entity': 'entities' },
  AlterPartitionRequest: { topics: 'topic' },
  DeleteAclsRequest: under('filters', ACL_FILTER),
  DeleteAclsResponse: { 'filterResults.matchingAcls.patternType': 'resourcePatternType' },
  DescribeAclsRequest: { '': 'filter', ...ACL_FILTER },
  DescribeAclsResponse: { 'resources.patternType': 'resourcePatternType' },
  DescribeLogDirsRequest: { 'topics.topic': 'name' },
  FetchRequest: { 'topics.topic': 'topicId', 'forgottenTopicsData.topicId': 'topic' },
  FetchResponse: { 'responses.topic': 'topicId' },
  ListConfigResourcesResponse: {
    configResources: 'clientMetricsResources',
    'configResources.resourceName': 'name'
  },
  ListOffsetsRequest: { replicaId: 'replica' },
  OffsetForLeaderEpochRequest: {
    'topics.topic': 'name',
    'topics.partitions.partition': 'partitionIndex'
  },
  ProduceRequest: { timeoutMs: 'timeout' }
}

const oneField = { 'MetadataRequest.topics': 'name' }

export const NAMES = new Names({ fields, oneField })
