import assert from 'node:assert/strict';
import { once } from 'node:events';
import { afterEach, beforeEach, test } from 'node:test';

import { status as Code } from '@grpc/grpc-js';

import { GroupConsumer } from '../../src/consumer/group.js';
import { silentLogger } from '../../src/utils/logger.js';
import { FakeService } from './fakeService.js';

let service;
let consumers;

beforeEach(async () => {
  service = await FakeService.start();
  consumers = [];
});

afterEach(async () => {
  await Promise.all(consumers.map((one) => one.stop()));
  service.stop();
});

/** A started consumer, what it has handled, and a way to wait for that. */
function open(options = {}) {
  const consumer = new GroupConsumer({
    client: service.client,
    logger: silentLogger,
    groupId: 'g',
    topics: ['t'],
    autoCommitInterval: 10,
    ...options,
  });
  consumers.push(consumer);
  const handled = [];
  let wake = () => {};
  const until = async (count) => {
    while (handled.length < count) {
      await new Promise((resolve) => {
        wake = resolve;
      });
    }
    return handled;
  };
  const handle = options.handle ?? (async () => {});
  consumer.on('message', async (message) => {
    await handle(message, consumer);
    handled.push(message.offset);
    wake();
  });
  consumer.start();
  return { consumer, handled, until };
}

test('it joins with its options', async () => {
  open({ fromBeginning: true, sessionTimeout: 12_000 });
  const start = await (await service.stream()).until('start');
  assert.equal(start.group, 'g');
  assert.deepEqual(start.topics, ['t']);
  assert.equal(start.reset, 'RESET_POLICY_EARLIEST');
  assert.equal(start.commitMode, 'COMMIT_MODE_MANUAL');
  assert.equal(start.sessionTimeoutMs, 12_000);
});

test('offsets are committed after their messages were handled', async () => {
  let finish;
  const { until } = open({
    handle: ({ offset }) => offset === 1 && new Promise((resolve) => (finish = resolve)),
  });
  const stream = await service.stream();
  stream.assign(0);
  stream.batch(0, 0, 1, 2);
  const first = await stream.until('commit');
  assert.deepEqual(first.offsets, [{ topic: 't', partition: 0, offset: 1 }]);
  finish();
  await until(3);
  let commit;
  do {
    commit = await stream.until('commit');
  } while (commit.offsets[0].offset < 3);
  assert.equal(commit.offsets[0].offset, 3);
});

test('commitOffset inside a handler needs the offset alone', async () => {
  const handle = (message, consumer) => consumer.commitOffset(message.offset);
  const { until } = open({ autoCommit: false, autoCommitInterval: 60_000, handle });
  const stream = await service.stream();
  stream.assign(0, 1);
  stream.batch(1, 7);
  const commit = await stream.until('commit');
  assert.deepEqual(commit.offsets, [{ topic: 't', partition: 1, offset: 8 }]);
  assert.deepEqual(await until(1), [7]);
});

test('a failed commit rejects, and one of a foreign partition is refused', async () => {
  const { consumer } = open({ autoCommit: false });
  const stream = await service.stream();
  stream.assign(0);
  await once(consumer, 'assigned');
  stream.confirmsCommits = false;
  const refused = assert.rejects(consumer.commitOffset({ topic: 't', partition: 0, offset: 1 }), {
    reason: 'FENCED',
  });
  const { requestId } = await stream.until('commit');
  stream.call.write({ failed: { requestId, failure: { code: 9, reason: 'FENCED', message: 'no' } } });
  await refused;
  stream.confirmsCommits = true;
  await assert.rejects(consumer.commitOffset({ topic: 't', partition: 5, offset: 1 }), {
    reason: 'NOT_ASSIGNED',
  });
  await assert.rejects(consumer.commitOffset(3), TypeError);
});

test('a handler that rejects gets the same message again, and nothing is skipped', async () => {
  let failures = 2;
  const { handled, until } = open({
    handle: async ({ offset }) => {
      if (offset === 1 && failures > 0) {
        failures -= 1;
        throw new Error('not yet');
      }
    },
  });
  const stream = await service.stream();
  stream.assign(0);
  stream.batch(0, 0, 1, 2);
  await until(3);
  assert.deepEqual(handled, [0, 1, 2]);
  assert.equal(failures, 0);
});

test('it connects again after an interruption', async () => {
  const { consumer, until } = open();
  const first = await service.stream();
  first.assign(0);
  first.batch(0, 0);
  await until(1);
  const disconnected = once(consumer, 'disconnected');
  first.end(Code.UNAVAILABLE, 'restarting');
  await disconnected;
  assert.deepEqual(consumer.partitions, []);
  const second = await service.stream();
  await second.until('start');
  second.assign(0);
  second.batch(0, 0, 1);
  assert.deepEqual(await until(3), [0, 0, 1]);
  assert.equal(consumer.state, 'joined');
});

test('an error that no retry cures ends it', async () => {
  const { consumer } = open();
  const failed = once(consumer, 'error');
  (await service.stream()).end(Code.PERMISSION_DENIED, 'no');
  const [error] = await failed;
  assert.equal(error.httpStatus, 403);
  assert.equal(consumer.state, 'failed');
});

test('messages of revoked partitions are not handled, others are', async () => {
  let finish;
  const held = new Promise((resolve) => (finish = resolve));
  const { consumer, handled, until } = open({ handle: ({ partition }) => partition === 0 && held });
  const stream = await service.stream();
  stream.assign(0, 1);
  stream.batch(0, 10, 11, 12);
  stream.revoke(0);
  await once(consumer, 'revoked');
  finish();
  stream.batch(1, 20);
  stream.batch(0, 13);
  await until(2);
  assert.deepEqual(handled.sort(), [10, 20]);
  const commit = await stream.until('commit');
  assert.deepEqual(commit.offsets, [{ topic: 't', partition: 1, offset: 21 }]);
});

test('a partition with too many messages waiting is paused, and resumed', async () => {
  let finish;
  const held = new Promise((resolve) => (finish = resolve));
  const { until } = open({ queueMax: 4, handle: () => held });
  const stream = await service.stream();
  stream.assign(0);
  stream.batch(0, 0, 1, 2, 3, 4, 5, 6);
  assert.deepEqual((await stream.until('pause')).partitions, [{ topic: 't', partition: 0 }]);
  finish();
  assert.deepEqual((await stream.until('resume')).partitions, [{ topic: 't', partition: 0 }]);
  await until(7);
});

test('after a seek, messages from before it are dropped', async () => {
  const { consumer, handled, until } = open({ autoCommit: false });
  const stream = await service.stream();
  stream.assign(0);
  await once(consumer, 'assigned');
  const sought = consumer.seek('t', 0, 50);
  const { requestId, position } = await stream.until('seek');
  assert.equal(position.offset, 50);
  stream.batch(0, 1, 2);
  stream.call.write({ sought: { requestId, position } });
  stream.batch(0, 50);
  await sought;
  await until(1);
  assert.deepEqual(handled, [50]);
});

test('stopping commits what is done and leaves the group', async () => {
  const { consumer, until } = open({ autoCommitInterval: 60_000 });
  const stream = await service.stream();
  stream.assign(0);
  stream.batch(0, 0, 1);
  await until(2);
  const stopped = consumer.stop();
  const commit = await stream.until('commit');
  assert.equal(commit.offsets[0].offset, 2);
  await stopped;
  assert.equal(consumer.state, 'stopped');
});
