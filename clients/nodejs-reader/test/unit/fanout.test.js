import assert from 'node:assert/strict';
import { test } from 'node:test';

import { status as Code } from '@grpc/grpc-js';

import { FanoutReader, Limiter } from '../../src/consumer/fanout.js';
import { ServiceError } from '../../src/utils/rpcErrors.js';

/** A feed of one partition over a log in memory. */
class MemoryFeed {
  topic = 't';
  partitions = [0];
  readers = new Set();
  log = [];
  start = 0;

  next() {
    return this.log.length;
  }

  add(reader) {
    this.readers.add(reader);
  }

  remove(reader) {
    this.readers.delete(reader);
  }

  publish(count) {
    for (let number = 0; number < count; number += 1) {
      const message = { topic: 't', partition: 0, offset: this.log.length };
      this.log.push(message);
      for (const reader of this.readers) reader.offer(message);
    }
  }

  client = {
    fetch: async ({ offset }) => {
      if (offset < this.start || offset > this.log.length)
        throw new ServiceError(416, 'GONE', 'gone', { rpcCode: Code.OUT_OF_RANGE });
      const messages = this.log.slice(offset, offset + 3);
      return { messages, nextOffset: offset + messages.length };
    },
    describeTopic: async () => ({
      partitions: [{ partition: 0, startOffset: this.start, endOffset: this.log.length }],
    }),
  };
}

/** A sink that takes `room` messages and then is full until it is drained. */
class Sink {
  taken = [];
  gaps = [];
  room = Infinity;
  #waiting = [];

  get isFull() {
    return this.taken.length >= this.room;
  }

  send({ offset }) {
    this.taken.push(offset);
  }

  gap(topic, partition, from, to) {
    this.gaps.push([from, to]);
  }

  fail(error) {
    this.error = error;
  }

  async drained() {
    if (this.isFull) await new Promise((resolve) => this.#waiting.push(resolve));
  }

  drain(room = Infinity) {
    this.room = room;
    this.#waiting.splice(0).forEach((resolve) => resolve());
  }

  async until(count) {
    while (this.taken.length < count) await new Promise((resolve) => setImmediate(resolve));
  }
}

const range = (from, to) => Array.from({ length: to - from }, (_, index) => from + index);

async function read(feed, options = {}) {
  const sink = new Sink();
  sink.room = options.room ?? Infinity;
  const reader = new FanoutReader({ feed, client: feed.client, limiter: new Limiter(2), sink, ...options });
  await reader.start();
  return { sink, reader };
}

test('a reader gets every message from where it starts', async () => {
  const feed = new MemoryFeed();
  feed.publish(5);
  const latest = await read(feed);
  const earliest = await read(feed, { fromBeginning: true });
  const placed = await read(feed, { positions: new Map([[0, 2]]) });
  feed.publish(5);
  await Promise.all([latest.sink.until(5), earliest.sink.until(10), placed.sink.until(8)]);
  assert.deepEqual(latest.sink.taken, range(5, 10));
  assert.deepEqual(earliest.sink.taken, range(0, 10));
  assert.deepEqual(placed.sink.taken, range(2, 10));
});

test('a full reader falls behind alone and catches up without a gap', async () => {
  const feed = new MemoryFeed();
  const slow = await read(feed, { room: 2 });
  const quick = await read(feed);
  feed.publish(20);
  assert.deepEqual(quick.sink.taken, range(0, 20));
  assert.deepEqual(slow.sink.taken, [0, 1]);
  slow.sink.drain(9);
  await slow.sink.until(9);
  feed.publish(5);
  assert.deepEqual(slow.sink.taken, range(0, 9));
  slow.sink.drain();
  await slow.sink.until(25);
  feed.publish(5);
  await slow.sink.until(30);
  assert.deepEqual(slow.sink.taken, range(0, 30));
  assert.deepEqual(quick.sink.taken, range(0, 30));
});

test('messages that retention has deleted are reported as a gap', async () => {
  const feed = new MemoryFeed();
  const { sink } = await read(feed, { room: 1 });
  feed.publish(10);
  feed.start = 6;
  sink.drain();
  await sink.until(5);
  assert.deepEqual(sink.gaps, [[1, 6]]);
  assert.deepEqual(sink.taken, [0, ...range(6, 10)]);
});

test('a position past the end is reported as a gap', async () => {
  const feed = new MemoryFeed();
  feed.publish(3);
  const { sink } = await read(feed, { positions: new Map([[0, 99]]) });
  while (sink.gaps.length === 0) await new Promise((resolve) => setImmediate(resolve));
  feed.publish(2);
  await sink.until(2);
  assert.deepEqual(sink.gaps, [[99, 3]]);
  assert.deepEqual(sink.taken, [3, 4]);
});

test('a temporary error is retried, another one ends the reader', async () => {
  const feed = new MemoryFeed();
  feed.publish(3);
  const { fetch } = feed.client;
  let failures = 1;
  feed.client.fetch = async (request) => {
    if (failures-- > 0) throw new ServiceError(503, 'UNREACHABLE', 'down', { retriable: true });
    return fetch(request);
  };
  const { sink } = await read(feed, { fromBeginning: true });
  await sink.until(3);
  feed.client.fetch = async () => {
    throw new ServiceError(404, 'NOT_FOUND', 'deleted');
  };
  const ended = await read(feed, { fromBeginning: true });
  while (!ended.sink.error) await new Promise((resolve) => setImmediate(resolve));
  assert.equal(ended.sink.error.reason, 'NOT_FOUND');
});

test('a limiter runs so many at a time, in order', async () => {
  const limiter = new Limiter(2);
  let running = 0;
  let most = 0;
  const order = [];
  await Promise.all(
    range(0, 6).map((number) =>
      limiter.run(async () => {
        most = Math.max(most, ++running);
        await new Promise((resolve) => setImmediate(resolve));
        running -= 1;
        order.push(number);
      }),
    ),
  );
  assert.equal(most, 2);
  assert.deepEqual(order, range(0, 6));
});
