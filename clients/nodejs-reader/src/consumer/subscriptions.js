// The subscriptions of REST clients. One that nobody asks for messages ends, so that others get its partitions.
import { randomUUID } from 'node:crypto';

import { ServiceError } from '../utils/rpcErrors.js';
import { PolledSubscription } from './polledSubscription.js';

const SWEEP_MS = 1_000;

export class Subscriptions {
  #open = new Map();
  #timer;

  constructor({ client, logger, subscriptionsMax, idleMs }) {
    Object.assign(this, { client, logger, subscriptionsMax, idleMs });
    this.#timer = setInterval(() => this.#sweep(), SWEEP_MS);
  }

  get all() {
    return [...this.#open.values()];
  }

  /** Joins the group. Rejects if a topic does not exist. */
  async create(options) {
    if (this.#open.size >= this.subscriptionsMax) {
      const words = `${this.subscriptionsMax} subscriptions are open, the maximum of this service.`;
      throw new ServiceError(429, 'TOO_MANY_SUBSCRIPTIONS', words, { retriable: true, retryAfterMs: 5_000 });
    }
    await Promise.all(options.topics.map((topic) => this.client.describeTopic(topic)));
    const { client, logger } = this;
    const subscription = new PolledSubscription({ id: randomUUID(), client, logger, ...options });
    subscription.consumer.on('error', () => {}); // its state says so
    this.#open.set(subscription.id, subscription);
    subscription.start();
    return subscription;
  }

  get(id) {
    const found = this.#open.get(id);
    if (!found) throw new ServiceError(404, 'NO_SUCH_SUBSCRIPTION', `There is no subscription ${id}.`);
    return found;
  }

  async remove(id) {
    const found = this.get(id);
    this.#open.delete(id);
    await found.stop();
  }

  async close() {
    clearInterval(this.#timer);
    const all = this.all;
    this.#open.clear();
    await Promise.allSettled(all.map((one) => one.stop()));
  }

  #sweep() {
    for (const { id, lastUsedMs } of this.all) {
      if (Date.now() - lastUsedMs < this.idleMs) continue;
      this.logger.info('subscription is idle, leaving its group', { id });
      this.remove(id).catch((error) => this.logger.warn(`cannot end subscription ${id}: ${error.message}`));
    }
  }
}
