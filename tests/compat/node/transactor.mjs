// A transactional producer through kafkajs. Speaks the words of transactor.py.
import { createInterface } from 'node:readline'
import { createRequire } from 'node:module'
import path from 'node:path'

const [bootstrap, installDir, text] = process.argv.slice(2)
const options = JSON.parse(text)
const require = createRequire(path.join(installDir, 'package.json'))
const { Kafka, logLevel } = require('kafkajs')

const kafka = new Kafka({ clientId: 'compat-transactor', brokers: bootstrap.split(','), logLevel: logLevel.NOTHING })
let producer
let transaction

const ops = {
  async init() {
    producer = kafka.producer({
      transactionalId: options.id,
      transactionTimeout: options.timeout_ms,
      maxInFlightRequests: 1,
      idempotent: true,
      retry: { retries: 5, initialRetryTime: 50, maxRetryTime: 300 },
    })
    await producer.connect()
    await (await producer.transaction()).abort()
  },
  async begin() {
    transaction = await producer.transaction()
  },
  async send({ topic, partition, values }) {
    const messages = values.map(value => ({ value, partition }))
    const [stored] = await transaction.send({ topic, acks: -1, messages })
    return values.map((_, at) => Number(stored.baseOffset) + at)
  },
  async offsets({ group, topic, partition, offset }) {
    const topics = [{ topic, partitions: [{ partition, offset: String(offset) }] }]
    await transaction.sendOffsets({ consumerGroupId: group, topics })
  },
  async commit() {
    await transaction.commit()
  },
  async abort() {
    await transaction.abort()
  },
}

for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line)
  let answer
  try {
    answer = { ok: (await ops[request.op](request)) ?? null }
  } catch (error) {
    answer = { refused: error.type ?? error.name, detail: error.message }
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`)
}
process.exit(0)
