// Collects messages of separate requests into batches, and bounds what waits for its acknowledgement.
//
// Messages with the same topic and options share a lane. A lane sends a batch when it is full or has waited long
// enough, and has a few requests in flight at most. What is accepted counts as pending until it is acknowledged.
import { status as Code } from '@grpc/grpc-js';

import { ServiceError } from '../utils/rpcErrors.js';

const RETRY_AFTER_MS = 1_000;

export class BatchService {
  #lanes = new Map();
  #isClosed = false;
  #idle = [];

  constructor({ client, limits, metrics }) {
    this.client = client;
    this.limits = limits;
    this.metrics = metrics;
    this.pendingMessages = 0;
    this.pendingBytes = 0;
  }

  get isFull() {
    return (
      this.pendingMessages >= this.limits.pendingMessagesMax ||
      this.pendingBytes >= this.limits.pendingBytesMax
    );
  }

  /** Throws a ServiceError, 429 or 503, if this service takes no more messages now. */
  checkRoom(messages = 0, bytes = 0) {
    if (this.#isClosed) {
      throw new ServiceError(503, 'STOPPING', 'The service is stopping.', {
        retriable: true,
        retryAfterMs: RETRY_AFTER_MS,
      });
    }
    const { pendingMessagesMax, pendingBytesMax } = this.limits;
    const isOver =
      this.pendingMessages + messages > pendingMessagesMax || this.pendingBytes + bytes > pendingBytesMax;
    // A batch that is larger than the limit passes when nothing else is pending.
    if (this.isFull || (isOver && this.pendingMessages > 0)) {
      this.metrics?.rejected.inc();
      const words = `${this.pendingMessages} messages wait for their acknowledgement; try again later.`;
      throw new ServiceError(429, 'TOO_MANY_PENDING', words, {
        retriable: true,
        retryAfterMs: RETRY_AFTER_MS,
      });
    }
  }

  /** Writes one message; resolves with its outcome. */
  async submit(topic, options, { message, bytes }) {
    this.checkRoom(1, bytes);
    // A transaction is one request of one client.
    if (options.delivery === 'DELIVERY_MODE_EXACTLY_ONCE') {
      const [outcome] = await this.#tracked(1, bytes, () => this.#produce(topic, options, [message]));
      return outcome;
    }
    return this.#tracked(1, bytes, () => this.#lane(topic, options).add(message, bytes));
  }

  /** Writes messages as one request, in order; resolves with an outcome per message. */
  async submitAll(topic, options, encoded) {
    const bytes = encoded.reduce((total, one) => total + one.bytes, 0);
    this.checkRoom(encoded.length, bytes);
    const messages = encoded.map((one) => one.message);
    return this.#tracked(messages.length, bytes, () => this.#produce(topic, options, messages));
  }

  /** Accepts no more messages, sends what waits, and resolves once everything is acknowledged or has failed. */
  async close() {
    this.#isClosed = true;
    for (const lane of this.#lanes.values()) lane.flush();
    if (this.pendingMessages > 0) await new Promise((resolve) => this.#idle.push(resolve));
  }

  #lane(topic, options) {
    const name = JSON.stringify([topic, options]);
    let lane = this.#lanes.get(name);
    if (!lane) {
      const send = (messages) => this.#produce(topic, options, messages, { areIndependent: true });
      lane = new Lane(send, this.limits, () => this.#lanes.delete(name));
      this.#lanes.set(name, lane);
    }
    return lane;
  }

  #produce(topic, options, messages, limits) {
    this.metrics?.batchMessages.observe(messages.length);
    return this.client.produce({ topic, messages, ...options }, limits);
  }

  async #tracked(messages, bytes, work) {
    this.pendingMessages += messages;
    this.pendingBytes += bytes;
    try {
      return await work();
    } finally {
      this.pendingMessages -= messages;
      this.pendingBytes -= bytes;
      if (this.pendingMessages === 0) this.#idle.splice(0).forEach((resolve) => resolve());
    }
  }
}

/** The messages of one topic with the same options. Removes itself when nothing waits and nothing is in flight. */
class Lane {
  #waiting = [];
  #timer = null;
  #inFlight = 0;

  constructor(send, limits, onEmpty) {
    this.send = send;
    this.limits = limits;
    this.onEmpty = onEmpty;
  }

  add(message, bytes) {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ message, bytes, resolve, reject });
      if (this.#waiting.length >= this.limits.sizeMax || this.limits.lingerMs === 0) this.flush();
      else this.#timer ??= setTimeout(() => this.flush(), this.limits.lingerMs);
    });
  }

  /** Sends what waits, as far as requests may be in flight. */
  flush() {
    clearTimeout(this.#timer);
    this.#timer = null;
    while (this.#waiting.length > 0 && this.#inFlight < this.limits.requestsInFlightMax) {
      this.#sendBatch(this.#take());
    }
  }

  #take() {
    let bytes = 0;
    let count = 0;
    while (count < this.#waiting.length && count < this.limits.sizeMax) {
      bytes += this.#waiting[count].bytes;
      if (count > 0 && bytes > this.limits.bytesMax) break;
      count += 1;
    }
    return this.#waiting.splice(0, count);
  }

  async #sendBatch(batch) {
    this.#inFlight += 1;
    try {
      const outcomes = await this.send(batch.map((one) => one.message));
      batch.forEach((one, index) => one.resolve(outcomes[index]));
    } catch (error) {
      // One bad message fails the whole request before anything is written: let each stand for itself.
      if (batch.length > 1 && error.rpcCode === Code.INVALID_ARGUMENT) await this.#sendEach(batch);
      else batch.forEach((one) => one.reject(error));
    } finally {
      this.#inFlight -= 1;
      if (this.#waiting.length > 0) this.flush();
      else if (this.#inFlight === 0) this.onEmpty();
    }
  }

  async #sendEach(batch) {
    await Promise.all(
      batch.map(({ message, resolve, reject }) =>
        this.send([message]).then(([outcome]) => resolve(outcome), reject),
      ),
    );
  }
}
