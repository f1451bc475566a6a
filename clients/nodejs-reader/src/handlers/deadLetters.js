// Writes messages that cannot be handled to `<topic>.dlq`, unchanged, with the cause and the origin in headers.
import { Connection } from '../consumer/connection.js';

const PREFIX = 'penstock.dead.';
const PROTO_FILES = ['penstock/v1/producer.proto', 'penstock/v1/topics.proto'];

export const deadLetterTopic = (topic) => `${topic}.dlq`;

export class DeadLetters {
  #created = new Set();

  constructor({
    url,
    groupId,
    timeoutMs,
    security,
    connection = new Connection(url, PROTO_FILES, security),
  }) {
    Object.assign(this, { groupId, timeoutMs, connection });
  }

  /** Resolves once all in-sync replicas have the dead letter. */
  async write(message, error, deliveries) {
    const topic = deadLetterTopic(message.topic);
    const limits = { timeoutMs: this.timeoutMs };
    if (!this.#created.has(topic)) {
      const wanted = { name: topic, partitions: 1, configs: { 'retention.ms': '-1' }, ifNotExists: true };
      await this.connection.call('penstock.v1.Topics', 'createTopic', wanted, limits);
      this.#created.add(topic);
    }
    const letter = {
      key: message.key ?? undefined,
      value: message.value ?? undefined,
      rawHeaders: [...ownHeaders(message), ...this.#causeHeaders(message, error, deliveries)],
    };
    const request = { topic, messages: [letter], ackLevel: 'ACK_LEVEL_ALL' };
    await this.connection.call('penstock.v1.Producer', 'produce', request, limits);
  }

  close() {
    this.connection.close();
  }

  #causeHeaders({ topic, partition, offset }, error, deliveries) {
    const facts = {
      reason: error.isPermanent ? 'malformed' : `failed ${deliveries} times`,
      error: error.message,
      group: this.groupId,
      topic,
      partition,
      offset,
      deliveries,
    };
    return Object.entries(facts).map(([name, value]) => ({
      name: PREFIX + name,
      value: Buffer.from(String(value)),
    }));
  }
}

/** The headers of a message without those of an earlier dead letter. */
function ownHeaders({ rawHeaders }) {
  return rawHeaders.filter(({ name }) => !name.startsWith(PREFIX));
}
