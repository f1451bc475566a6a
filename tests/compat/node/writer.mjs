// A producer through kafkajs: numbered records until its input ends. Speaks the words of writer.py.
//
// kafkajs is idempotent with one request in flight at most, and sends nothing before that is answered.
import { createRequire } from 'node:module'
import path from 'node:path'

const [bootstrap, installDir, text] = process.argv.slice(2)
const options = JSON.parse(text)
const require = createRequire(path.join(installDir, 'package.json'))
const { Kafka, logLevel } = require('kafkajs')

const say = fact => process.stdout.write(JSON.stringify(fact) + '\n')
const kafka = new Kafka({
  clientId: 'compat-writer',
  brokers: bootstrap.split(','),
  logLevel: logLevel.NOTHING,
  requestTimeout: 10000,
  retry: { retries: 300, initialRetryTime: 100, maxRetryTime: 500 },
})
const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1, allowAutoTopicCreation: false })

let ended = false
process.stdin.resume()
process.stdin.on('end', () => {
  ended = true
})
await producer.connect()
for (let number = 0; !ended; number++) {
  const messages = [{ key: String(number % options.keys), value: String(number) }]
  try {
    const [where] = await producer.send({ topic: options.topic, acks: -1, messages })
    say({ acked: [where.partition, Number(where.baseOffset), number] })
  } catch (error) {
    say({ failed: String(error) })
  }
  await new Promise(done => setTimeout(done, options.pace_s * 1000))
}
await producer.disconnect()
process.exit(0)
