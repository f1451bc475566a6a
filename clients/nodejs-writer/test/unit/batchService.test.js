import assert from 'node:assert/strict';
import { test } from 'node:test';

import { status as Code } from '@grpc/grpc-js';

import { BatchService } from '../../src/services/batchService.js';
import { ServiceError } from '../../src/utils/rpcErrors.js';

const LIMITS = {
  sizeMax: 3,
  bytesMax: 1_000,
  lingerMs: 1,
  requestsInFlightMax: 1,
  pendingMessagesMax: 10,
  pendingBytesMax: 10_000,
};

/** A client whose calls the test answers by hand. */
class HeldClient {
  calls = [];

  produce(request) {
    return new Promise((resolve, reject) => {
      this.calls.push({ request, resolve, reject, values: request.messages.map((one) => one.value) });
      this.onCall?.();
    });
  }

  async called(count) {
    while (this.calls.length < count) {
      await new Promise((resolve) => {
        this.onCall = resolve;
      });
    }
    return this.calls[count - 1];
  }
}

const encoded = (value, bytes = 10) => ({ message: { value }, bytes });
const outcomes = (call) => call.values.map((value, offset) => ({ partition: 0, offset, value }));
const open = (limits = {}) => {
  const client = new HeldClient();
  return { client, batches: new BatchService({ client, limits: { ...LIMITS, ...limits } }) };
};

test('messages of separate requests share a request, each with its own outcome', async () => {
  const { client, batches } = open();
  const sent = ['a', 'b', 'c'].map((value) => batches.submit('t', {}, encoded(value)));
  const call = await client.called(1);
  assert.deepEqual(call.values, ['a', 'b', 'c']);
  call.resolve(outcomes(call));
  assert.deepEqual(
    (await Promise.all(sent)).map((one) => one.value),
    ['a', 'b', 'c'],
  );
  assert.equal(batches.pendingMessages, 0);
  assert.equal(batches.pendingBytes, 0);
});

test('a lane keeps to its size, its bytes and its requests in flight, in order', async () => {
  const { client, batches } = open();
  const sent = ['a', 'b', 'c', 'd', 'e'].map((value) =>
    batches.submit('t', {}, encoded(value, value === 'd' ? 995 : 10)),
  );
  const seen = [];
  for (let number = 1; number <= 3; number += 1) {
    const call = await client.called(number);
    seen.push(call.values);
    assert.equal(client.calls.length, number);
    call.resolve(outcomes(call));
  }
  await Promise.all(sent);
  assert.deepEqual(seen, [['a', 'b', 'c'], ['d'], ['e']]);
});

test('different topics and options do not share a request', async () => {
  const { client, batches } = open();
  const sent = [
    batches.submit('t', {}, encoded('a')),
    batches.submit('u', {}, encoded('b')),
    batches.submit('t', { ackLevel: 'ACK_LEVEL_LEADER' }, encoded('c')),
  ];
  await client.called(3);
  client.calls.forEach((call) => call.resolve(outcomes(call)));
  await Promise.all(sent);
  assert.deepEqual(client.calls.map((call) => call.request.topic).sort(), ['t', 't', 'u']);
});

test('one bad message does not fail the others', async () => {
  const { client, batches } = open();
  const refused = new ServiceError(400, 'BAD_ARGUMENT', 'bad', { rpcCode: Code.INVALID_ARGUMENT });
  const sent = ['good', 'bad', 'fine'].map((value) => batches.submit('t', {}, encoded(value)));
  (await client.called(1)).reject(refused);
  await client.called(4);
  for (const call of client.calls.slice(1)) {
    if (call.values[0] === 'bad') call.reject(refused);
    else call.resolve(outcomes(call));
  }
  const settled = await Promise.allSettled(sent);
  assert.deepEqual(
    settled.map((one) => one.status),
    ['fulfilled', 'rejected', 'fulfilled'],
  );
});

test('too many pending messages are refused with 429 and a hint', async () => {
  const { client, batches } = open({ pendingMessagesMax: 2 });
  const sent = [batches.submit('t', {}, encoded('a')), batches.submit('t', {}, encoded('b'))];
  await assert.rejects(batches.submit('t', {}, encoded('c')), {
    httpStatus: 429,
    reason: 'TOO_MANY_PENDING',
    retriable: true,
  });
  const call = await client.called(1);
  call.resolve(outcomes(call));
  await Promise.all(sent);
  batches.checkRoom(1, 1);
});

test('a batch larger than the limit passes when nothing else is pending', async () => {
  const { client, batches } = open({ pendingMessagesMax: 1 });
  const sent = batches.submitAll('t', {}, [encoded('a'), encoded('b')]);
  await assert.rejects(batches.submitAll('t', {}, [encoded('c')]), { httpStatus: 429 });
  const call = await client.called(1);
  call.resolve(outcomes(call));
  assert.equal((await sent).length, 2);
});

test('closing sends what waits and refuses the rest', async () => {
  const { client, batches } = open({ lingerMs: 60_000 });
  const sent = batches.submit('t', {}, encoded('a'));
  const closed = batches.close();
  await assert.rejects(batches.submit('t', {}, encoded('b')), { httpStatus: 503, reason: 'STOPPING' });
  const call = await client.called(1);
  call.resolve(outcomes(call));
  await closed;
  assert.equal((await sent).value, 'a');
});

test('a failed request fails its messages and frees their room', async () => {
  const { client, batches } = open();
  const sent = [batches.submit('t', {}, encoded('a')), batches.submit('t', {}, encoded('b'))];
  (await client.called(1)).reject(
    new ServiceError(503, 'UNREACHABLE', 'gone', { rpcCode: Code.UNAVAILABLE }),
  );
  for (const one of await Promise.allSettled(sent)) assert.equal(one.reason.reason, 'UNREACHABLE');
  assert.equal(batches.pendingMessages, 0);
});
