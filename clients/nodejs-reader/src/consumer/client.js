// Calls of the consumer service. Knows nothing of HTTP.
import { Connection } from './connection.js';

export const PROTO_FILES = ['penstock/v1/consumer.proto', 'penstock/v1/topics.proto'];
const CONSUMER = 'penstock.v1.Consumer';
const TOPICS = 'penstock.v1.Topics';

export class ConsumerClient {
  #stopping = new AbortController();

  constructor({ url, timeoutMs, security, connection = new Connection(url, PROTO_FILES, security) }) {
    this.connection = connection;
    this.timeoutMs = timeoutMs;
  }

  /** A Subscribe stream: one member of a group. */
  subscribe() {
    return this.connection.stub(CONSUMER).subscribe(this.connection.metadata());
  }

  /** Messages of one partition from an offset, without a group. */
  async fetch(request) {
    const response = await this.#call(CONSUMER, 'fetch', request);
    return { ...response, messages: response.messages.map((one) => readMessage(request.topic, one)) };
  }

  async getOffsets(group) {
    const { offsets } = await this.#call(CONSUMER, 'getOffsets', { group });
    return offsets.map(({ topic, partition, committed, endOffset, lag }) => ({
      topic,
      partition,
      committed: committed ?? null,
      endOffset,
      lag,
    }));
  }

  async setOffsets(group, offsets) {
    await this.#call(CONSUMER, 'setOffsets', { group, offsets });
  }

  async listGroups() {
    return (await this.#call(CONSUMER, 'listGroups', {})).groups;
  }

  async describeTopic(name) {
    return this.#call(TOPICS, 'describeTopic', { name });
  }

  async health() {
    return this.connection.health();
  }

  /** Ends calls in progress with an error. */
  close() {
    this.#stopping.abort();
    this.connection.close();
  }

  #call(service, method, request) {
    const { timeoutMs } = this;
    return this.connection.call(service, method, request, { timeoutMs, signal: this.#stopping.signal });
  }
}

/** A message of the protocol with its topic; key and value are bytes or null. */
export function readMessage(topic, message) {
  const { partition = 0, offset, timestamp = null, key = null, value = null, rawHeaders = [] } = message;
  return { topic, partition, offset, timestamp, key, value, rawHeaders };
}
