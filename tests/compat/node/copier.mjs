// Consume, transform, produce, in transactions, through kafkajs. Speaks the words of copier.py.
//
// kafkajs knows no KIP-447: a producer for each partition, whose transactional id fences whoever had the partition before.
import { createRequire } from 'node:module'
import path from 'node:path'

const [bootstrap, installDir, text] = process.argv.slice(2)
const options = JSON.parse(text)
const require = createRequire(path.join(installDir, 'package.json'))
const { Kafka, logLevel } = require('kafkajs')

const kafka = new Kafka({
  clientId: 'compat-copier',
  brokers: bootstrap.split(','),
  logLevel: logLevel.NOTHING,
  requestTimeout: 5000,
  retry: { retries: 20, initialRetryTime: 50, maxRetryTime: 300 },
})
const admin = kafka.admin()
const consumer = kafka.consumer({
  groupId: options.group,
  sessionTimeout: options.session_ms,
  heartbeatInterval: 300,
  maxWaitTimeInMs: 100,
})
let producers = new Map()
consumer.on(consumer.events.GROUP_JOIN, () => {
  producers = new Map()
})

const open = async partition => {
  const producer = kafka.producer({
    transactionalId: `${options.group}-${partition}`,
    transactionTimeout: options.timeout_ms,
    maxInFlightRequests: 1,
    idempotent: true,
  })
  await producer.connect()
  await (await producer.transaction()).abort()
  return producer
}

const committed = async partition => {
  const [found] = await admin.fetchOffsets({ groupId: options.group, topics: [options.source] })
  return Math.max(0, Number(found.partitions.find(one => one.partition === partition)?.offset ?? 0))
}

const copy = async ({ topic, partition, messages }) => {
  const mine = producers
  if (!mine.has(partition)) {
    // Fence the producer that had the partition before, and only then look how far it came.
    mine.set(partition, await open(partition))
    const next = await committed(partition)
    if (next !== Number(messages[0].offset)) {
      consumer.seek({ topic, partition, offset: String(next) })
      return
    }
  }
  const transaction = await mine.get(partition).transaction()
  await transaction.send({
    topic: options.target,
    acks: -1,
    messages: messages.map(one => ({ value: one.value, partition })),
  })
  const next = String(Number(messages.at(-1).offset) + 1)
  await transaction.sendOffsets({
    consumerGroupId: options.group,
    topics: [{ topic, partitions: [{ partition, offset: next }] }],
  })
  await transaction.commit()
  process.stdout.write(`${messages.length}\n`)
}

await admin.connect()
await consumer.connect()
await consumer.subscribe({ topics: [options.source], fromBeginning: true })
await consumer.run({
  autoCommit: false,
  eachBatch: async ({ batch }) => {
    try {
      await copy(batch)
    } catch (error) {
      process.stderr.write(`cannot go on: ${error}\n`)
      process.exit(1)
    }
  },
})
