// A group member whose messages are fetched with REST requests, at the pace of the client.
import { GroupConsumer } from './group.js';

const BUFFERED_MAX = 1_000;

export class PolledSubscription {
  #buffer = [];
  #arrivals = [];
  #room = [];
  #handedOver = [];

  constructor({ id, client, logger, processor, autoCommit, ...options }) {
    Object.assign(this, { id, processor, autoCommit });
    this.lastUsedMs = Date.now();
    this.consumer = new GroupConsumer({
      client,
      logger,
      ...options,
      autoCommit: false,
      queueMax: BUFFERED_MAX,
    });
    this.consumer.on('message', (message) => this.#take(message));
    this.consumer.on('revoked', () => this.#discardForeign());
    this.consumer.on('disconnected', () => this.#discardForeign());
  }

  start() {
    this.consumer.start();
  }

  describe() {
    const { id, autoCommit, consumer } = this;
    const { groupId, topics, state, partitions } = consumer;
    return { id, groupId, topics, format: this.processor.name.split(':')[0], autoCommit, state, partitions };
  }

  /**
   * Up to `max` messages; waits for the first one. With autoCommit, asking for more confirms what the call before
   * returned.
   */
  async poll(max, waitMs) {
    this.lastUsedMs = Date.now();
    if (this.autoCommit) this.#handedOver.splice(0).forEach((one) => this.consumer.markDone(one));
    if (this.#buffer.length === 0) await this.#arrival(waitMs);
    const found = this.#buffer.splice(0, max);
    if (this.#buffer.length < BUFFERED_MAX) this.#room.splice(0).forEach((resolve) => resolve());
    if (this.autoCommit) this.#handedOver.push(...found);
    this.lastUsedMs = Date.now();
    return found;
  }

  async commit(offsets) {
    this.lastUsedMs = Date.now();
    for (const one of offsets) await this.consumer.commitOffset(one);
  }

  async stop() {
    this.#room.splice(0).forEach((resolve) => resolve());
    this.#arrivals.splice(0).forEach((resolve) => resolve());
    await this.consumer.stop();
  }

  async #take(message) {
    this.#buffer.push(message);
    this.#arrivals.splice(0).forEach((resolve) => resolve());
    if (this.#buffer.length >= BUFFERED_MAX) await new Promise((resolve) => this.#room.push(resolve));
  }

  async #arrival(waitMs) {
    if (waitMs === 0) return;
    await new Promise((resolve) => {
      const timer = setTimeout(resolve, waitMs);
      this.#arrivals.push(() => {
        clearTimeout(timer);
        resolve();
      });
    });
  }

  /** Messages of partitions that others have now are delivered there. */
  #discardForeign() {
    const own = new Set(this.consumer.partitions.map((one) => `${one.topic}:${one.partition}`));
    const isOwn = ({ topic, partition }) => own.has(`${topic}:${partition}`);
    this.#buffer = this.#buffer.filter(isOwn);
    this.#handedOver = this.#handedOver.filter(isOwn);
    if (this.#buffer.length < BUFFERED_MAX) this.#room.splice(0).forEach((resolve) => resolve());
  }
}
