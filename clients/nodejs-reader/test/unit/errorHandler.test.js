import assert from 'node:assert/strict';
import { test } from 'node:test';

import { DeadLetters } from '../../src/handlers/deadLetters.js';
import { ErrorHandler } from '../../src/handlers/errorHandler.js';
import { ProcessingError } from '../../src/processors/processingError.js';
import { silentLogger } from '../../src/utils/logger.js';

const message = {
  topic: 't',
  partition: 1,
  offset: 4,
  key: Buffer.from('k'),
  value: Buffer.from('v'),
  rawHeaders: [
    { name: 'own', value: Buffer.from('1') },
    { name: 'penstock.dead.topic', value: Buffer.from('earlier') },
  ],
};

function open(options = {}) {
  const calls = [];
  const connection = {
    call: async (service, method, request) => calls.push([method, request]),
  };
  const deadLetters = new DeadLetters({ groupId: 'g', timeoutMs: 1_000, connection });
  return {
    calls,
    handler: new ErrorHandler({ retries: 2, backoffMs: 1, deadLetters, logger: silentLogger, ...options }),
  };
}

test('work that succeeds after retries leaves no dead letter', async () => {
  const { calls, handler } = open();
  let attempts = 0;
  await handler.guard(message, async () => {
    attempts += 1;
    if (attempts < 3) throw new Error('busy');
  });
  assert.equal(attempts, 3);
  assert.deepEqual(calls, []);
});

test('a message that keeps failing becomes a dead letter, unchanged, with its cause', async () => {
  const { calls, handler } = open();
  const fail = async () => {
    throw new Error('broken');
  };
  await handler.guard(message, fail);
  await handler.guard(message, fail);
  assert.deepEqual(
    calls.map(([method]) => method),
    ['createTopic', 'produce', 'produce'],
  );
  const [, { topic, messages }] = calls[1];
  assert.equal(topic, 't.dlq');
  assert.equal(messages[0].value, message.value);
  const headers = messages[0].rawHeaders.map(({ name, value }) => [name, value.toString()]);
  assert.deepEqual(headers, [
    ['own', '1'],
    ['penstock.dead.reason', 'failed 3 times'],
    ['penstock.dead.error', 'broken'],
    ['penstock.dead.group', 'g'],
    ['penstock.dead.topic', 't'],
    ['penstock.dead.partition', '1'],
    ['penstock.dead.offset', '4'],
    ['penstock.dead.deliveries', '3'],
  ]);
});

test('a malformed message is not retried', async () => {
  const { calls, handler } = open();
  let attempts = 0;
  await handler.guard(message, async () => {
    attempts += 1;
    throw new ProcessingError('not JSON');
  });
  assert.equal(attempts, 1);
  assert.equal(calls.length, 2);
});

test('without dead letters the message stays', async () => {
  const { handler } = open({ deadLetters: null, retries: 0 });
  await assert.rejects(
    handler.guard(message, async () => {
      throw new Error('broken');
    }),
    /broken/,
  );
});
