// A member of a consumer group through a Subscribe stream. Connects again by itself.
//
//   consumer.on('message', async (message) => {…; await consumer.commitOffset(message.offset); });
//
// Messages of a partition are handled one after another, partitions side by side. A handler that rejects gets the same
// message again, so errors that cannot be cured belong into its own error handling. Offsets are committed after their
// message was handled: with `autoCommit` at intervals, otherwise by `commitOffset`. Events: message, assigned, revoked,
// disconnected, failure (a handler rejected), error (the stream cannot work; the consumer has stopped).
import { AsyncLocalStorage } from 'node:async_hooks';
import { randomUUID } from 'node:crypto';
import { EventEmitter } from 'node:events';

import { status as Code } from '@grpc/grpc-js';

import { ServiceError, fromFailure, fromRpcError } from '../utils/rpcErrors.js';
import { settlesWithin } from '../utils/shutdown.js';
import { readMessage } from './client.js';
import { OffsetTracker, placeOf } from './offset.js';
import { PartitionQueue } from './partitionQueue.js';

const FATAL_CODES = new Set([
  Code.INVALID_ARGUMENT,
  Code.NOT_FOUND,
  Code.PERMISSION_DENIED,
  Code.UNAUTHENTICATED,
  Code.UNIMPLEMENTED,
]);
const DELIVERIES = {
  'at-most-once': 'DELIVERY_MODE_AT_MOST_ONCE',
  'at-least-once': 'DELIVERY_MODE_AT_LEAST_ONCE',
};
const RECONNECT_MS = 100;
const RECONNECT_MS_MAX = 5_000;
const LEAVE_MS = 5_000;
const ANSWER_MS = 10_000;

export class GroupConsumer extends EventEmitter {
  #options;
  #client;
  #logger;
  #call = null;
  #queues = new Map();
  #offsets = new OffsetTracker();
  #answers = new Map();
  #current = new AsyncLocalStorage();
  #reconnectMs = RECONNECT_MS;
  #reconnectTimer = null;
  #commitTimer = null;
  #committing = null;
  #ended = null;

  constructor({ client, logger, ...options }) {
    super();
    this.#client = client;
    this.#logger = logger;
    this.#options = {
      fromBeginning: false,
      autoCommit: true,
      autoCommitInterval: 5_000,
      delivery: 'at-least-once',
      isGroupFresh: false, // a new group per connection: no waiting for a member that was cut off
      queueMax: 1_000,
      batchMax: 200,
      ...options,
    };
    this.groupId = options.groupId;
    this.topics = options.topics;
    this.state = 'new';
  }

  get partitions() {
    return [...this.#queues.values()].map(({ topic, partition }) => ({ topic, partition }));
  }

  /** Messages that arrived and are not handled. */
  get queued() {
    return [...this.#queues.values()].reduce((total, one) => total + one.size, 0);
  }

  start() {
    this.#commitTimer = setInterval(() => this.#commitMarked(), this.#options.autoCommitInterval);
    this.#connect();
  }

  /** Lets messages in progress end, commits what is done, and leaves the group. */
  async stop() {
    if (this.#isStopping || this.state === 'failed') return;
    const isMember = this.state === 'joined';
    this.state = 'stopping';
    this.#clearTimers();
    const queues = [...this.#queues.values()];
    for (const queue of queues) queue.drop();
    await settlesWithin(Promise.all(queues.map((queue) => queue.idle())), LEAVE_MS);
    await settlesWithin(this.#commitMarked(), LEAVE_MS);
    if (this.#call) {
      const ended = new Promise((resolve) => {
        this.#ended = resolve;
      });
      if (isMember) this.#call.end();
      else this.#call.cancel(); // it waits for a service that may be down
      if (!(await settlesWithin(ended, LEAVE_MS))) this.#call?.cancel();
    }
    this.state = 'stopped';
  }

  /** The message and all before it in its partition are done; committed at the next interval. */
  markDone(message) {
    if (this.#queues.has(placeOf(message.topic, message.partition))) this.#offsets.markDone(message);
  }

  /**
   * Commits a message and all before it in its partition; resolves once the group has stored that. Takes a message, or
   * an object with topic, partition and offset; inside a message handler, the offset alone.
   */
  async commitOffset(target) {
    const message = typeof target === 'number' ? { ...this.#current.getStore(), offset: target } : target;
    const { topic, partition, offset } = message ?? {};
    if (typeof topic !== 'string' || !Number.isSafeInteger(partition) || !Number.isSafeInteger(offset)) {
      throw new TypeError('commitOffset needs a message, or inside a message handler the offset of it.');
    }
    if (this.#options.delivery === 'at-most-once') return; // the service has committed it already
    this.#checkAssigned(topic, partition);
    this.#offsets.markDone(message);
    const positions = [{ topic, partition, offset: offset + 1 }];
    await this.#request('commit', { offsets: positions });
    this.#offsets.markCommitted(positions);
  }

  /** Continues a partition elsewhere: -2 is its beginning, -1 its end. */
  async seek(topic, partition, offset) {
    const queue = this.#checkAssigned(topic, partition);
    const seekId = randomUUID();
    queue.seekId = seekId;
    queue.clear();
    this.#offsets.forget(topic, partition);
    try {
      await this.#request('seek', { position: { topic, partition, offset } }, seekId);
    } finally {
      if (queue.seekId === seekId) queue.seekId = null;
    }
  }

  /** Drops the stream and connects again. */
  reconnect() {
    this.#call?.cancel();
  }

  get #isStopping() {
    return this.state === 'stopping' || this.state === 'stopped';
  }

  #checkAssigned(topic, partition) {
    const queue = this.#queues.get(placeOf(topic, partition));
    if (queue) return queue;
    throw new ServiceError(409, 'NOT_ASSIGNED', `${topic}:${partition} is not assigned to this member now.`, {
      retriable: true,
      retryAfterMs: 1_000,
    });
  }

  // -- the stream

  #connect() {
    this.state = 'connecting';
    const call = this.#client.subscribe();
    this.#call = call;
    call.on('data', (response) => this.#take(response));
    call.on('error', () => {}); // 'status' follows
    call.on('status', (status) => this.#disconnected(call, status));
    call.write({ start: this.#startRequest() });
  }

  #startRequest() {
    const { groupId, isGroupFresh, topics, fromBeginning, sessionTimeout, delivery, batchMax } =
      this.#options;
    return {
      group: isGroupFresh ? `${groupId}-${randomUUID()}` : groupId,
      topics,
      delivery: DELIVERIES[delivery],
      commitMode: delivery === 'at-least-once' ? 'COMMIT_MODE_MANUAL' : 'COMMIT_MODE_UNSPECIFIED',
      reset: fromBeginning ? 'RESET_POLICY_EARLIEST' : 'RESET_POLICY_LATEST',
      sessionTimeoutMs: sessionTimeout ?? 0,
      maxBatchMessages: batchMax,
    };
  }

  #disconnected(call, status) {
    if (call !== this.#call) return;
    this.#call = null;
    const error = fromRpcError(status);
    this.#dropAll();
    for (const requestId of [...this.#answers.keys()]) this.#answer(requestId, error);
    this.#ended?.();
    if (this.#isStopping) return;
    if (FATAL_CODES.has(status.code)) {
      this.state = 'failed';
      this.#clearTimers();
      this.#logger.error(`subscription ended: ${error.message}`, {
        group: this.groupId,
        reason: error.reason,
      });
      if (this.listenerCount('error') > 0) this.emit('error', error);
      return;
    }
    this.state = 'disconnected';
    const delayMs = Math.round(this.#reconnectMs * (0.5 + Math.random() / 2));
    this.#reconnectMs = Math.min(this.#reconnectMs * 2, RECONNECT_MS_MAX);
    const fields = { group: this.groupId, reason: error.reason, retryMs: delayMs };
    this.#logger.warn(`subscription interrupted, connecting again: ${error.message}`, fields);
    this.#reconnectTimer = setTimeout(() => this.#connect(), delayMs);
    this.emit('disconnected', error);
  }

  #take(response) {
    switch (response.event) {
      case 'batch':
        this.#takeBatch(response.batch);
        break;
      case 'assigned':
        this.#takeAssigned(response.assigned.partitions);
        break;
      case 'revoked':
        for (const { topic, partition } of response.revoked.partitions) this.#drop(topic, partition);
        this.emit('revoked', response.revoked.partitions);
        break;
      case 'committed':
      case 'sought':
        this.#answer(response[response.event].requestId, null);
        break;
      case 'failed':
        this.#answer(response.failed.requestId, fromFailure(response.failed.failure));
        break;
      default: // an event of a newer service
    }
  }

  #takeAssigned(partitions) {
    if (this.#isStopping) return;
    const wanted = new Set(partitions.map(({ topic, partition }) => placeOf(topic, partition)));
    for (const { topic, partition } of this.partitions) {
      if (!wanted.has(placeOf(topic, partition))) this.#drop(topic, partition);
    }
    const added = partitions.filter((one) => !this.#queues.has(placeOf(one.topic, one.partition)));
    for (const { topic, partition } of added) {
      this.#queues.set(placeOf(topic, partition), this.#openQueue(topic, partition));
    }
    if (this.state === 'connecting') this.state = 'joined';
    this.#reconnectMs = RECONNECT_MS;
    this.#logger.info('partitions assigned', { group: this.groupId, partitions: partitions.length });
    this.emit('assigned', partitions, added);
  }

  #openQueue(topic, partition) {
    return new PartitionQueue({
      topic,
      partition,
      sizeMax: this.#options.queueMax,
      deliver: (queue, message) => this.#deliver(queue, message),
      onFailure: (error, message) => this.#reportFailure(error, message),
      setPaused: (queue, isPaused) => {
        this.#call?.write({ [isPaused ? 'pause' : 'resume']: { partitions: [{ topic, partition }] } });
      },
    });
  }

  #takeBatch({ topic, partition, messages }) {
    const queue = this.#queues.get(placeOf(topic, partition));
    queue?.push(messages.map((one) => readMessage(topic, one)));
  }

  async #deliver(queue, message) {
    const listeners = this.listeners('message');
    await Promise.all(listeners.map((one) => this.#current.run(message, one, message)));
    // A partition that was revoked and came back has another queue: this message is delivered there again.
    const isOurs = this.#queues.get(placeOf(queue.topic, queue.partition)) === queue;
    if (isOurs && this.#options.autoCommit && queue.seekId === null) this.#offsets.markDone(message);
  }

  #reportFailure(error, message) {
    const { topic, partition, offset } = message;
    this.#logger.warn(`message handler failed, retrying: ${error.message}`, { topic, partition, offset });
    this.emit('failure', error, message);
  }

  #drop(topic, partition) {
    this.#queues.get(placeOf(topic, partition))?.drop();
    this.#queues.delete(placeOf(topic, partition));
    this.#offsets.forget(topic, partition);
  }

  #dropAll() {
    for (const { topic, partition } of this.partitions) this.#drop(topic, partition);
    this.#offsets.clear();
  }

  // -- requests with an answer

  #request(kind, request, requestId = randomUUID()) {
    return new Promise((resolve, reject) => {
      if (!this.#call) {
        reject(
          new ServiceError(503, 'DISCONNECTED', 'The consumer service is not connected.', {
            retriable: true,
          }),
        );
        return;
      }
      const timer = setTimeout(() => {
        const words = `The consumer service did not answer the ${kind} within ${ANSWER_MS} ms.`;
        this.#answer(requestId, new ServiceError(504, 'TIMED_OUT', words, { retriable: true }));
      }, ANSWER_MS);
      this.#answers.set(requestId, { resolve, reject, timer });
      this.#call.write({ [kind]: { ...request, requestId } });
    });
  }

  #answer(requestId, error) {
    const answer = this.#answers.get(requestId);
    this.#answers.delete(requestId);
    clearTimeout(answer?.timer);
    if (answer && error) answer.reject(error);
    else if (answer) answer.resolve();
    else if (error)
      this.#logger.debug(`request of the stream failed: ${error.message}`, { reason: error.reason });
  }

  /** Commits what is done. A failure is not lost: the offsets are committed next time. */
  async #commitMarked() {
    this.#committing ??= this.#commitOnce().finally(() => {
      this.#committing = null;
    });
    await this.#committing;
  }

  async #commitOnce() {
    const positions = this.#offsets.uncommitted();
    if (positions.length === 0 || !this.#call || this.#options.delivery === 'at-most-once') return;
    try {
      await this.#request('commit', { offsets: positions });
      this.#offsets.markCommitted(positions);
    } catch (error) {
      this.#logger.warn(`cannot commit offsets, retrying: ${error.message}`, { group: this.groupId });
    }
  }

  #clearTimers() {
    clearInterval(this.#commitTimer);
    clearTimeout(this.#reconnectTimer);
  }
}
