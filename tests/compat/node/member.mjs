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
  brokers: bootstrap.split(','),
  logLevel: logLevel.ERROR,
  // It has no setting for "no reset": the only trace of one is a line of its log.
  logCreator: () => ({ log }) => {
    if (options.reset === 'none' && log.message.startsWith('Offset out of range')) say({ failed: log.message })
  },
  retry: { retries: 50, initialRetryTime: 100, maxRetryTime: 500 },
})
const consumer = kafka.consumer({
  groupId: options.group,
  sessionTimeout: options.session_ms,
  heartbeatInterval: 300,
  maxWaitTimeInMs: 100,
})
consumer.on(consumer.events.GROUP_JOIN, ({ payload: { memberAssignment } }) =>
  say({ holds: Object.keys(memberAssignment).flatMap(topic => memberAssignment[topic].map(one => [topic, one])) }),
)
consumer.on(consumer.events.REBALANCING, () => say({ holds: [] }))
consumer.on(consumer.events.CRASH, ({ payload: { error, restart } }) => restart || say({ failed: String(error) }))

const tell = ({ topic, partition, messages }) => {
  for (const one of messages) say({ read: [topic, partition, Number(one.offset), one.value.toString()] })
}

// What is not committed is thrown: kafkajs then reads the batch again, or leaves it to whoever has the partition now.
const commit = async ({ topic, partition, messages }) => {
  const next = Number(messages.at(-1).offset) + 1
  try {
    await consumer.commitOffsets([{ topic, partition, offset: String(next) }])
  } catch (error) {
    say({ refused: error.type ?? error.name })
    throw error
  }
  say({ committed: [topic, partition, next] })
}

const isAutomatic = options.commit === 'auto'
await consumer.connect()
await consumer.subscribe({ topics: options.topics, fromBeginning: options.reset === 'earliest' })
await consumer.run({
  autoCommit: isAutomatic,
  autoCommitInterval: isAutomatic ? 100 : undefined,
  eachBatch: async ({ batch }) => {
    if (options.commit !== 'before') tell(batch)
    if (!isAutomatic) await commit(batch)
    if (options.commit === 'before') tell(batch)
  },
})
process.stdin.resume()
process.stdin.on('end', async () => {
  await consumer.disconnect()
  process.exit(0)
})
