// kafkajs behind JSON lines: one request per line on stdin, one answer per line on stdout.
// Never decides what is right: it reports what the library saw, and errors by Kafka's name.
// Reads with the library's own cluster and broker objects, because its consumer cannot work without a group.
import { createInterface } from 'node:readline'
import { createRequire } from 'node:module'
import path from 'node:path'

const [bootstrap, installDir] = process.argv.slice(2)
const require = createRequire(path.join(installDir, 'package.json'))
const { Kafka, CompressionTypes, logLevel, ConfigResourceTypes } = require('kafkajs')
const Cluster = require('kafkajs/src/cluster')
const socketFactory = require('kafkajs/src/network/socketFactory')
const { createLogger } = require('kafkajs/src/loggers')
const consoleLogger = require('kafkajs/src/loggers/console')

const WAIT_MS = 20_000
const FETCH_WAIT_MS = 40_000
const FETCH_BYTES_MAX = 8 * 1024 * 1024
const TIMES = { earliest: -2, latest: -1 }
const retry = { retries: 3, initialRetryTime: 100, maxRetryTime: 500 }

const kafka = new Kafka({ clientId: 'compat-kafkajs', brokers: bootstrap.split(','), logLevel: logLevel.NOTHING, retry })
const admin = kafka.admin()
const producers = new Map()
const cluster = new Cluster({
  logger: createLogger({ level: logLevel.NOTHING, logCreator: consoleLogger }),
  socketFactory: socketFactory(),
  brokers: bootstrap.split(','),
  clientId: 'compat-kafkajs',
  connectionTimeout: 5000,
  requestTimeout: WAIT_MS + FETCH_WAIT_MS,
  metadataMaxAge: 300_000,
  allowAutoTopicCreation: false,
  retry,
})

const toBytes = text => (text === null ? null : Buffer.from(text, 'base64'))
const toText = bytes => (bytes === null || bytes === undefined ? null : Buffer.from(bytes).toString('base64'))

async function producerFor(idempotent) {
  if (!producers.has(idempotent)) {
    const producer = kafka.producer({
      idempotent,
      allowAutoTopicCreation: true,
      retry: { ...retry, retries: 10 },
    })
    await producer.connect()
    producers.set(idempotent, producer)
  }
  return producers.get(idempotent)
}

async function produce({ topic, records, partition, acks, codec, idempotent }) {
  const producer = await producerFor(idempotent)
  const stored = await producer.send({
    topic,
    acks: acks === 'all' ? -1 : Number(acks),
    compression: { none: CompressionTypes.None, gzip: CompressionTypes.GZIP }[codec],
    messages: records.map(record => ({
      partition,
      key: toBytes(record.key),
      value: toBytes(record.value),
      headers: Object.fromEntries(record.headers.map(([name, value]) => [name, toBytes(value)])),
      timestamp: record.timestamp_ms === null ? undefined : String(record.timestamp_ms),
    })),
  })
  const base = stored.length === 1 && stored[0].baseOffset !== undefined ? Number(stored[0].baseOffset) : null
  return records.map((_, index) => (base === null || base < 0 ? -1 : base + index))
}

async function leaderOf(topic, partition) {
  await cluster.addTargetTopic(topic)
  const [nodeId] = Object.keys(cluster.findLeaderForPartitions(topic, [partition]))
  return cluster.findBroker({ nodeId })
}

function gotRecord(message) {
  const headers = Object.entries(message.headers).map(([name, value]) => [name, toText(value)])
  return {
    offset: Number(message.offset),
    key: toText(message.key),
    value: toText(message.value),
    headers,
    timestamp_ms: Number(message.timestamp),
    timestamp_kind: message.batchContext.timestampType === 1 ? 'append' : 'create',
  }
}

async function fetch({ topic, partition, offset, count }) {
  const broker = await leaderOf(topic, partition)
  const got = []
  const deadline = Date.now() + WAIT_MS
  let next = offset
  while (got.length < count) {
    if (Date.now() > deadline) throw new Error(`${got.length} of ${count} records of ${topic}`)
    const answer = await broker.fetch({
      maxWaitTime: FETCH_WAIT_MS,
      minBytes: 1,
      maxBytes: FETCH_BYTES_MAX,
      topics: [{ topic, partitions: [{ partition, fetchOffset: String(next), maxBytes: FETCH_BYTES_MAX }] }],
    })
    const { messages } = answer.responses[0].partitions[0]
    for (const message of messages) {
      if (Number(message.offset) >= next && got.length < count) got.push(gotRecord(message))
    }
    if (messages.length) next = Number(messages[messages.length - 1].offset) + 1
  }
  return got
}

async function offset_of({ topic, partition, spec }) {
  if (typeof spec === 'number') {
    const found = await admin.fetchTopicOffsetsByTimestamp(topic, spec)
    return Number(found.find(entry => entry.partition === partition).offset)
  }
  const broker = await leaderOf(topic, partition)
  const answer = await broker.listOffsets({
    topics: [{ topic, partitions: [{ partition, timestamp: TIMES[spec] }] }],
  })
  return Number(answer.responses[0].partitions[0].offset)
}

async function partitions_of({ topic }) {
  const { topics } = await admin.fetchTopicMetadata({ topics: [topic] })
  return topics[0].partitions.length
}

async function create_topic({ topic, partitions, replicas, configs }) {
  const configEntries = Object.entries(configs).map(([name, value]) => ({ name, value }))
  await admin.createTopics({
    topics: [{ topic, numPartitions: partitions, replicationFactor: replicas, configEntries }],
  })
}

async function delete_records({ topic, partition, before }) {
  await admin.fetchTopicOffsets(topic) // the call below looks for the leader before it asks for metadata
  await admin.deleteTopicRecords({ topic, partitions: [{ partition, offset: String(before) }] })
  return offset_of({ topic, partition, spec: 'earliest' })
}

async function configsOf(type, name) {
  const { resources } = await admin.describeConfigs({ includeSynonyms: false, resources: [{ type, name }] })
  return Object.fromEntries(resources[0].configEntries.map(entry => [entry.configName, entry.configValue]))
}

async function replace_configs({ topic, configs }) {
  const configEntries = Object.entries(configs).map(([name, value]) => ({ name, value }))
  await admin.alterConfigs({
    validateOnly: false,
    resources: [{ type: ConfigResourceTypes.TOPIC, name: topic, configEntries }],
  })
}

async function describedCluster() {
  const { brokers, controller, clusterId } = await admin.describeCluster()
  return {
    cluster_id: clusterId,
    controller_id: controller,
    brokers: brokers.map(({ nodeId, host, port }) => [nodeId, host, port]),
  }
}

const OPS = {
  produce,
  fetch,
  offset_of,
  partitions_of,
  create_topic,
  delete_topic: ({ topic }) => admin.deleteTopics({ topics: [topic] }),
  add_partitions: ({ topic, total }) => admin.createPartitions({ topicPartitions: [{ topic, count: total }] }),
  delete_records,
  topic_configs: ({ topic }) => configsOf(ConfigResourceTypes.TOPIC, topic),
  broker_configs: async () =>
    configsOf(ConfigResourceTypes.BROKER, String((await describedCluster()).brokers[0][0])),
  replace_configs,
  cluster: describedCluster,
}

// The library wraps what the broker said: in a retry count, in an aggregate, or in a partial failure.
function brokerError(error) {
  if (!error) return null
  if (typeof error.type === 'string') return error.type
  for (const inner of [error.cause, error.originalError, ...(error.errors ?? []), ...(error.partitions ?? [])]) {
    const name = brokerError(inner) ?? (typeof inner?.error === 'object' ? brokerError(inner.error) : null)
    if (name) return name
  }
  return null
}

async function answer(line) {
  const { op, ...request } = JSON.parse(line)
  try {
    return { ok: (await OPS[op](request)) ?? null }
  } catch (error) {
    const refused = brokerError(error)
    return { [refused ? 'refused' : 'failed']: refused ?? '', detail: `${error.name}: ${error.message}` }
  }
}

await Promise.all([admin.connect(), cluster.connect()])
for await (const line of createInterface({ input: process.stdin })) {
  process.stdout.write(JSON.stringify(await answer(line)) + '\n')
}
await Promise.all([admin.disconnect(), cluster.disconnect(), ...[...producers.values()].map(p => p.disconnect())])
