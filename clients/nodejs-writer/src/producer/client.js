// Calls of the producer service, with retries. Knows nothing of HTTP.
import { setTimeout as sleep } from 'node:timers/promises';

import { status as Code } from '@grpc/grpc-js';

import { fromFailure } from '../utils/rpcErrors.js';
import { Connection } from './connection.js';

export const PROTO_FILES = ['penstock/v1/producer.proto', 'penstock/v1/topics.proto'];
const PRODUCER = 'penstock.v1.Producer';
const TOPICS = 'penstock.v1.Topics';
const BACKOFF_MS = 100;
const BACKOFF_MS_MAX = 2_000;

export class ProducerClient {
  #stopping = new AbortController();

  constructor({ url, timeoutMs, security, connection = new Connection(url, PROTO_FILES, security) }) {
    this.connection = connection;
    this.timeoutMs = timeoutMs;
  }

  /**
   * Writes a batch; resolves with an outcome per message: {partition, offset, timestamp} or {error}. A batch of which
   * nothing was written rejects. With at-least-once delivery, a call that failed because the service went away, or with
   * an error that the service calls retriable, is repeated until the deadline: its messages may be written twice. With
   * `areIndependent`, messages that failed beside others are repeated too, although others have overtaken them.
   */
  async produce(request, { areIndependent = false } = {}) {
    const deadline = Date.now() + this.timeoutMs;
    const outcomes = request.messages.map(() => null);
    let open = [...outcomes.keys()];
    for (let backoffMs = BACKOFF_MS; ; backoffMs = Math.min(backoffMs * 2, BACKOFF_MS_MAX)) {
      const { found, error } = await this.#produceOnce(request, open, deadline);
      open.forEach((index, at) => {
        outcomes[index] = found?.[at] ?? { error };
      });
      if (found) open = open.filter((index) => areIndependent && isCurable(outcomes[index].error));
      const reason = open.length > 0 ? outcomes[open[0]].error : null;
      if (!reason || !(await this.#mayRepeat(request, reason, backoffMs, deadline))) {
        if (!found && open.length === outcomes.length) throw error;
        return outcomes;
      }
    }
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

  /** Writes the open messages of a request: {found} with their outcomes, or {error}. */
  async #produceOnce(request, open, deadline) {
    const { messages } = request;
    const isWhole = open.length === messages.length;
    const part = isWhole ? request : { ...request, messages: open.map((index) => messages[index]) };
    try {
      const { outcomes } = await this.#call(PRODUCER, 'produce', part, deadline - Date.now());
      return { found: outcomes.map(readOutcome) };
    } catch (error) {
      return { error };
    }
  }

  /** Waits before the next attempt; false if there is none. */
  async #mayRepeat(request, error, backoffMs, deadline) {
    const delayMs = Math.max(backoffMs, error.retryAfterMs ?? 0);
    const isTimeLeft = !this.#stopping.signal.aborted && Date.now() + delayMs < deadline;
    if (!isRepeatable(request) || !isCurable(error) || !isTimeLeft) return false;
    return sleep(delayMs, true, { signal: this.#stopping.signal }).catch(() => false);
  }
}

function isRepeatable({ delivery }) {
  return delivery === undefined || delivery === 'DELIVERY_MODE_AT_LEAST_ONCE';
}

/**
 * Whether another attempt may succeed. The service gives a reason with every error of its own. INTERNAL without one
 * comes from the gRPC library: the service was killed while it answered (a stream without status, a failed write).
 */
function isCurable(error) {
  return error?.retriable || (error?.rpcCode === Code.INTERNAL && error.reason === 'INTERNAL');
}

function readOutcome({ partition, offset, timestamp, failure }) {
  return failure
    ? { error: fromFailure(failure) }
    : { partition, offset: offset ?? null, timestamp: timestamp ?? null };
}
