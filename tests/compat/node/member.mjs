// One member of a consumer group through kafkajs. Speaks the words of member.py; never ends by itself.
import { createRequire } from 'node:module'
import path from 'node:path'

const [bootstrap, installDir, text] = process.argv.slice(2)
const options = JSON.parse(text)
const require = createRequire(path.join(installDir, 'package.json'))
const { Kafka, logLevel } = require('kafkajs')

const say = fact => process.stdout.write(JSON.stringify(fact) + '\n')
const kafka = new Kafka({
  clientId: 'compat-member',
  brokers: [bootstrap],
  logLevel: logLevel.NOTHING,
  retry: { retries: 50, initialRetryTime: 100, maxRetryTime: 500 },
})
const consumer = kafka.consumer({
  groupId: options.group,
  sessionTimeout: options.session_ms,
  heartbeatInterval: 300,
  maxWaitTimeInMs: 100,
})
consumer.on(consumer.events.GROUP_JOIN, event =>
  say({ assigned: (event.payload.memberAssignment[options.topic] ?? []).sort((a, b) => a - b) }),
)
consumer.on(consumer.events.REBALANCING, () => say({ assigned: [] }))

await consumer.connect()
await consumer.subscribe({ topic: options.topic, fromBeginning: true })
await consumer.run({
  autoCommit: Boolean(options.auto_commit),
  autoCommitInterval: options.auto_commit ? 100 : undefined,
  eachMessage: async ({ topic, partition, message }) => {
    say({ read: [partition, Number(message.offset), message.value.toString()] })
    if (options.auto_commit) return
    const next = Number(message.offset) + 1
    try {
      await consumer.commitOffsets([{ topic, partition, offset: String(next) }])
      say({ committed: { [partition]: next } })
    } catch (error) {
      say({ refused: error.type ?? error.name })
      throw error
    }
  },
})
process.stdin.resume()
process.stdin.on('end', async () => {
  await consumer.disconnect()
  process.exit(0)
})
