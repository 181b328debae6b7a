// Where the client says another name than the schema: message, then the field's path without
// indices, then the client's name. '' renames the message itself: one argument holds all of it.
// A name with dots is a path into the client's object.

const ACL_FILTER = {
  resourceTypeFilter: 'resourceType',
  resourceNameFilter: 'resourceName',
  patternTypeFilter: 'resourcePatternType',
  principalFilter: 'principal',
  hostFilter: 'host'
}

const under = (path, names) =>
  Object.fromEntries(Object.entries(names).map(([field, name]) => [`${path}.${field}`, name]))

export const NAMES = {
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

// Arrays of structs of which the client takes one field, as an array of that.
export const ONE_FIELD = { 'MetadataRequest.topics': 'name' }
