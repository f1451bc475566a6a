// One reader of a topic among many: live from the shared feed, and by fetches of its own while it is behind.
//
// A partition of a reader is live (the feed offers messages) or behind (it fetches from its position until it reaches
// the feed). A sink that is full makes the partition fall behind; nothing is buffered for it, and nobody waits for it.
import { setTimeout as sleep } from 'node:timers/promises';

import { status as Code } from '@grpc/grpc-js';

const BACKOFF_MS = 200;
const BACKOFF_MS_MAX = 5_000;
const FETCH = { maxBytes: 262_144, maxMessages: 500, maxWaitMs: 500 };

export class FanoutReader {
  #cursors = new Map();
  #closing = new AbortController();

  /**
   * `sink` has isFull, send(message), drained(), gap(topic, partition, from, to) and fail(error). `positions` maps
   * partitions to offsets; others start at the end of the feed, or with `fromBeginning` at the first message.
   */
  constructor({ feed, client, limiter, sink, positions = new Map(), fromBeginning = false }) {
    Object.assign(this, { feed, client, limiter, sink, fromBeginning });
    this.positions = positions;
  }

  async start() {
    const first = this.fromBeginning ? await this.#firstOffsets() : new Map();
    if (this.isClosed) return;
    for (const partition of this.feed.partitions) {
      const next = this.positions.get(partition) ?? first.get(partition) ?? this.feed.next(partition);
      this.#open(partition, next);
    }
    this.feed.add(this);
    for (const cursor of this.#cursors.values()) if (!cursor.isLive) this.#catchUp(cursor, true);
  }

  close() {
    this.feed.remove(this);
    this.#closing.abort();
  }

  /** Called by the feed when it cannot go on. */
  fail(error) {
    this.sink.fail(error);
  }

  get isClosed() {
    return this.#closing.signal.aborted;
  }

  /** Called by the feed, for every message in order. */
  offer(message) {
    // A partition that did not exist when the reader started: it begins with this message.
    const cursor =
      this.#cursors.get(message.partition) ?? this.#open(message.partition, message.offset, true);
    if (!cursor.isLive || message.offset < cursor.next) return;
    if (this.sink.isFull) {
      cursor.isLive = false;
      this.#catchUp(cursor);
      return;
    }
    this.#send(cursor, message);
  }

  async #firstOffsets() {
    const { partitions } = await this.client.describeTopic(this.feed.topic);
    return new Map(partitions.map((one) => [one.partition, one.startOffset]));
  }

  #open(partition, next, isLive = next === this.feed.next(partition)) {
    const cursor = { partition, next, isLive };
    this.#cursors.set(partition, cursor);
    return cursor;
  }

  #send(cursor, message) {
    this.sink.send(message);
    cursor.next = message.offset + 1;
  }

  /** With `mustFetch`, the position is not trusted: it may be past the end of the partition. */
  async #catchUp(cursor, mustFetch = false) {
    let backoffMs = BACKOFF_MS;
    while (!this.isClosed) {
      await this.sink.drained();
      if (this.isClosed) return;
      // No await between this check and the change: the feed cannot offer a message in between.
      if (!mustFetch && cursor.next >= this.feed.next(cursor.partition)) {
        cursor.isLive = true;
        return;
      }
      try {
        await this.#fetch(cursor);
        mustFetch = false;
        backoffMs = BACKOFF_MS;
      } catch (error) {
        if (this.isClosed) return;
        if (!error.retriable) {
          this.sink.fail(error);
          return;
        }
        await sleep(backoffMs, undefined, { signal: this.#closing.signal }).catch(() => {});
        backoffMs = Math.min(backoffMs * 2, BACKOFF_MS_MAX);
      }
    }
  }

  async #fetch(cursor) {
    const { topic } = this.feed;
    const { partition } = cursor;
    let found;
    try {
      const request = { topic, partition, offset: cursor.next, ...FETCH };
      found = await this.limiter.run(() => this.client.fetch(request));
    } catch (error) {
      if (error.rpcCode !== Code.OUT_OF_RANGE) throw error;
      await this.#skipGap(cursor);
      return;
    }
    for (const message of found.messages) {
      if (this.sink.isFull) await this.sink.drained();
      if (this.isClosed) return;
      this.#send(cursor, message);
    }
    cursor.next = Math.max(cursor.next, found.nextOffset);
  }

  /** Retention has deleted messages that the reader had not read, or its position is past the end. */
  async #skipGap(cursor) {
    const { partitions } = await this.client.describeTopic(this.feed.topic);
    const state = partitions.find((one) => one.partition === cursor.partition);
    const to = state ? Math.min(Math.max(cursor.next, state.startOffset), state.endOffset) : 0;
    this.sink.gap(this.feed.topic, cursor.partition, cursor.next, to);
    cursor.next = to;
  }
}

/** At most so many at the same time; others wait in order. */
export class Limiter {
  #waiting = [];
  #running = 0;

  constructor(max) {
    this.max = max;
  }

  async run(work) {
    if (this.#running >= this.max) await new Promise((resolve) => this.#waiting.push(resolve));
    else this.#running += 1;
    try {
      return await work();
    } finally {
      const next = this.#waiting.shift();
      if (next) next();
      else this.#running -= 1;
    }
  }
}
