// Calls of the producer service, with retries. Knows nothing of HTTP.
import { setTimeout as sleep } from 'node:timers/promises';

import { status as Code } from '@grpc/grpc-js';

import { fromFailure } from '../utils/rpcErrors.js';
import { Connection } from './connection.js';

export const PROTO_FILES = ['penstock/v1/producer.proto', 'penstock/v1/topics.proto'];
const PRODUCER = 'penstock.v1.Producer';
const TOPICS = 'penstock.v1.Topics';
const RETRIED_CODES = new Set([Code.UNAVAILABLE, Code.RESOURCE_EXHAUSTED]);
const BACKOFF_MS = 100;
const BACKOFF_MS_MAX = 2_000;

export class ProducerClient {
  #stopping = new AbortController();

  constructor({ url, timeoutMs, connection = new Connection(url, PROTO_FILES) }) {
    this.connection = connection;
    this.timeoutMs = timeoutMs;
  }

  /**
   * Writes a batch; resolves with an outcome per message: {partition, offset, timestamp} or {error}. A batch of which
   * nothing was written rejects. With at-least-once delivery, a call that failed because the service went away is
   * repeated until the deadline: its messages may be written twice.
   */
  async produce(request) {
    const response = await this.#retried(request, (timeoutMs) =>
      this.#call(PRODUCER, 'produce', request, timeoutMs),
    );
    return response.outcomes.map(readOutcome);
  }

  async listTopics() {
    const { topics } = await this.#call(TOPICS, 'listTopics', {});
    return topics;
  }

  async describeTopic(name) {
    return this.#call(TOPICS, 'describeTopic', { name });
  }

  async createTopic(topic) {
    return this.#call(TOPICS, 'createTopic', topic);
  }

  async health() {
    return this.connection.health();
  }

  /** Ends calls in progress with an error. */
  close() {
    this.#stopping.abort();
    this.connection.close();
  }

  #call(service, method, request, timeoutMs = this.timeoutMs) {
    return this.connection.call(service, method, request, { timeoutMs, signal: this.#stopping.signal });
  }

  async #retried(request, call) {
    const deadline = Date.now() + this.timeoutMs;
    for (let backoffMs = BACKOFF_MS; ; backoffMs = Math.min(backoffMs * 2, BACKOFF_MS_MAX)) {
      try {
        return await call(deadline - Date.now());
      } catch (error) {
        const isRetried = isRepeatable(request) && RETRIED_CODES.has(error.rpcCode);
        const delayMs = Math.max(backoffMs, error.retryAfterMs ?? 0);
        if (!isRetried || this.#stopping.signal.aborted || Date.now() + delayMs >= deadline) throw error;
        await sleep(delayMs, undefined, { signal: this.#stopping.signal }).catch(() => {
          throw error;
        });
      }
    }
  }
}

function isRepeatable({ delivery }) {
  return delivery === undefined || delivery === 'DELIVERY_MODE_AT_LEAST_ONCE';
}

function readOutcome({ partition, offset, timestamp, failure }) {
  return failure
    ? { error: fromFailure(failure) }
    : { partition, offset: offset ?? null, timestamp: timestamp ?? null };
}
