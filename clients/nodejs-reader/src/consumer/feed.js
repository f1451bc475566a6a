// The live messages of one topic, read once for any number of readers.
//
// A feed is the only member of a group of its own, a new one per connection. It commits nothing: it knows the next
// offset of every partition, and continues there after an interruption. It never waits for a reader; who cannot keep up
// reads by itself (fanout.js).
import { placeOf } from './offset.js';
import { GroupConsumer } from './group.js';

const BEGINNING = -2;

export class TopicFeed {
  #readers = new Set();
  #next = new Map();
  #consumer;
  #logger;

  constructor({ client, topic, groupId, logger }) {
    this.topic = topic;
    this.client = client;
    this.#logger = logger;
    this.#consumer = new GroupConsumer({
      client,
      logger,
      groupId: `${groupId}-feed`,
      isGroupFresh: true,
      topics: [topic],
      autoCommit: false,
      batchMax: 500,
    });
    this.#consumer.on('assigned', (all, added) => added.forEach((one) => this.#seek(one.partition)));
    this.#consumer.on('message', (message) => this.#publish(message));
    this.#consumer.on('error', (error) => this.#readers.forEach((one) => one.fail(error)));
  }

  /** Starts at the end of every partition. Rejects if there is no such topic. */
  async open() {
    const { partitions } = await this.client.describeTopic(this.topic);
    for (const { partition, endOffset } of partitions) this.#next.set(partition, endOffset);
    this.#consumer.start();
  }

  get partitions() {
    return [...this.#next.keys()];
  }

  get readers() {
    return this.#readers.size;
  }

  /** The offset after the last message that readers were offered. */
  next(partition) {
    return this.#next.get(partition) ?? 0;
  }

  add(reader) {
    this.#readers.add(reader);
  }

  remove(reader) {
    this.#readers.delete(reader);
  }

  onError(listener) {
    this.#consumer.on('error', listener);
  }

  async close() {
    await this.#consumer.stop();
  }

  async #seek(partition) {
    try {
      await this.#consumer.seek(this.topic, partition, this.#next.get(partition) ?? BEGINNING);
    } catch (error) {
      this.#logger.warn(
        `cannot continue ${placeOf(this.topic, partition)}, connecting again: ${error.message}`,
      );
      this.#consumer.reconnect();
    }
  }

  #publish(message) {
    if (message.offset < this.next(message.partition)) return;
    this.#next.set(message.partition, message.offset + 1);
    for (const reader of this.#readers) reader.offer(message);
  }
}

/** The feeds of a process: one per topic, open while it has readers. */
export class FeedHub {
  #feeds = new Map();

  constructor({ client, groupId, logger }) {
    Object.assign(this, { client, groupId, logger });
  }

  get topics() {
    return [...this.#feeds.keys()];
  }

  /** The feed of a topic; rejects if there is no such topic. Every reader gives it back with `release`. */
  async acquire(topic) {
    let entry = this.#feeds.get(topic);
    if (!entry) {
      const feed = new TopicFeed({ client: this.client, topic, groupId: this.groupId, logger: this.logger });
      entry = { feed, users: 0, opened: feed.open() };
      this.#feeds.set(topic, entry);
      feed.onError(() => this.#forget(topic, entry));
    }
    entry.users += 1;
    try {
      await entry.opened;
    } catch (error) {
      entry.users -= 1;
      this.#forget(topic, entry);
      throw error;
    }
    return entry.feed;
  }

  release(feed) {
    const entry = this.#feeds.get(feed.topic);
    if (entry?.feed !== feed) return;
    entry.users -= 1;
    if (entry.users > 0) return;
    this.#forget(feed.topic, entry);
    feed
      .close()
      .catch((error) => this.logger.warn(`cannot close the feed of ${feed.topic}: ${error.message}`));
  }

  async close() {
    const feeds = [...this.#feeds.values()].map((one) => one.feed);
    this.#feeds.clear();
    await Promise.allSettled(feeds.map((one) => one.close()));
  }

  #forget(topic, entry) {
    if (this.#feeds.get(topic) === entry) this.#feeds.delete(topic);
  }
}
