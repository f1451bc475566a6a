import assert from 'node:assert/strict';
import { test } from 'node:test';

import { status as Code } from '@grpc/grpc-js';

import { ProducerClient } from '../../src/producer/client.js';
import { fromRpcError } from '../../src/utils/rpcErrors.js';

const written = (offset) => ({ partition: 0, offset, timestamp: 1 });
const failed = (retriable) => ({
  failure: {
    code: Code.UNAVAILABLE,
    reason: 'DELIVERY_FAILED',
    message: 'words',
    retriable,
    retryAfterMs: 1,
  },
});
const broken = (code, details) => fromRpcError({ code, details });

/** A connection whose calls have these results, one after another; an error is thrown. */
function connection(...results) {
  const calls = [];
  return {
    calls,
    close() {},
    async call(service, method, request) {
      calls.push(request.messages.map((one) => one.value));
      const result = results[calls.length - 1];
      if (result instanceof Error) throw result;
      return { outcomes: result };
    },
  };
}

const request = (...values) => ({ topic: 't', messages: values.map((value) => ({ value })) });
const open = (link, timeoutMs = 60_000) => new ProducerClient({ timeoutMs, connection: link });

for (const [name, error] of [
  ['the service is gone', broken(Code.UNAVAILABLE, 'Connection dropped')],
  [
    'the stream was reset',
    broken(Code.INTERNAL, 'Received RST_STREAM with code 0 (Call ended without gRPC status)'),
  ],
  ['a write failed', broken(Code.INTERNAL, 'Received RST_STREAM with code 2 triggered by: write EPIPE')],
]) {
  test(`a call is repeated when ${name}`, async () => {
    const link = connection(error, [written(5)]);
    assert.deepEqual(await open(link).produce(request('a')), [written(5)]);
    assert.deepEqual(link.calls, [['a'], ['a']]);
  });
}

test('what cannot succeed, or may not be written twice, is not repeated', async () => {
  const bad = broken(Code.INVALID_ARGUMENT, 'bad');
  const gone = broken(Code.UNAVAILABLE, 'gone');
  await assert.rejects(open(connection(bad)).produce(request('a')), bad);
  for (const delivery of ['DELIVERY_MODE_AT_MOST_ONCE', 'DELIVERY_MODE_EXACTLY_ONCE']) {
    await assert.rejects(open(connection(gone)).produce({ ...request('a'), delivery }), gone);
  }
});

test('attempts end with the deadline and with the client', async () => {
  const gone = broken(Code.UNAVAILABLE, 'gone');
  await assert.rejects(open(connection(gone), 50).produce(request('a')), gone);
  const client = open(connection(gone));
  const sent = client.produce(request('a'));
  client.close();
  await assert.rejects(sent, gone);
});

test('independent messages that failed beside others are repeated alone', async () => {
  const link = connection(
    [failed(false), failed(true), written(1), failed(true)],
    [failed(true), written(2)],
    broken(Code.UNAVAILABLE, 'gone'),
    [written(3)],
  );
  const outcomes = await open(link).produce(request('a', 'b', 'c', 'd'), { areIndependent: true });
  assert.deepEqual(
    outcomes.map((one) => one.offset),
    [undefined, 3, 1, 2],
  );
  assert.deepEqual(link.calls, [['a', 'b', 'c', 'd'], ['b', 'd'], ['b'], ['b']]);
});

test('what still fails at the end is told beside what was written', async () => {
  const link = connection([written(0), failed(true)], broken(Code.INVALID_ARGUMENT, 'bad'));
  const [first, second] = await open(link).produce(request('a', 'b'), { areIndependent: true });
  assert.equal(first.offset, 0);
  assert.equal(second.error.message, 'bad');
  const ordered = await open(connection([written(0), failed(true)])).produce(request('a', 'b'));
  assert.equal(ordered[1].error.reason, 'DELIVERY_FAILED');
});
