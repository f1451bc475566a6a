import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Metadata, status as Code } from '@grpc/grpc-js';

import { fromFailure, fromRpcError } from '../../src/utils/rpcErrors.js';

// A google.rpc.Status with ErrorInfo (RECORD_TOO_LARGE, retriable=false) and RetryInfo (0.5 s), as the services send it.
const DETAILS = Buffer.concat([
  Buffer.from([0x08, 3, 0x12, 1, 0x78]),
  any('google.rpc.ErrorInfo', Buffer.concat([field(1, 'RECORD_TOO_LARGE'), field(2, 'penstock'), entry()])),
  any('google.rpc.RetryInfo', field(1, Buffer.from([0x10, 0x80, 0xca, 0xb5, 0xee, 0x01]))),
]);

function field(number, content) {
  const bytes = Buffer.from(content);
  return Buffer.concat([Buffer.from([(number << 3) | 2, bytes.length]), bytes]);
}

function entry() {
  return field(3, Buffer.concat([field(1, 'retriable'), field(2, 'false')]));
}

function any(name, content) {
  return field(3, Buffer.concat([field(1, `type.googleapis.com/${name}`), field(2, content)]));
}

function rpcError(code, bytes) {
  const metadata = new Metadata();
  if (bytes) metadata.set('grpc-status-details-bin', bytes);
  return Object.assign(new Error('words'), { code, details: 'words', metadata });
}

test('reason, hint and retriability come from the details', () => {
  const found = fromRpcError(rpcError(Code.INVALID_ARGUMENT, DETAILS));
  assert.equal(found.httpStatus, 413);
  assert.equal(found.reason, 'RECORD_TOO_LARGE');
  assert.equal(found.retriable, false);
  assert.equal(found.retryAfterMs, 500);
});

test('without details, or with damaged ones, the code is enough', () => {
  for (const bytes of [undefined, Buffer.from([0xff, 0xff, 0xff])]) {
    const found = fromRpcError(rpcError(Code.UNAVAILABLE, bytes));
    assert.deepEqual([found.httpStatus, found.reason, found.retriable], [503, 'UNAVAILABLE', true]);
  }
});

test('an error that is not of a call is internal', () => {
  assert.equal(fromRpcError(new TypeError('x')).httpStatus, 500);
});

test('failures inside responses use the same table', () => {
  const found = fromFailure({
    code: 5,
    reason: 'NOT_FOUND',
    message: 'no',
    retriable: false,
    retryAfterMs: 0,
  });
  assert.deepEqual([found.httpStatus, found.reason, found.message], [404, 'NOT_FOUND', 'no']);
});
