import assert from 'node:assert/strict';
import { test } from 'node:test';

import { encodeMessage } from '../../src/services/messageService.js';

const text = (buffer) => buffer?.toString();

test('values are JSON by default, and null is no value', () => {
  assert.equal(text(encodeMessage({ value: { a: [1, 'é'] } }).message.value), '{"a":[1,"é"]}');
  assert.equal(text(encodeMessage({ value: 'plain' }).message.value), '"plain"');
  assert.equal(encodeMessage({ value: null }).message.value, undefined);
  assert.equal(text(encodeMessage({ value: false }).message.value), 'false');
});

test('string and base64 values are stored as they are', () => {
  assert.equal(text(encodeMessage({ value: 'plain' }, 'string').message.value), 'plain');
  assert.deepEqual(encodeMessage({ value: '/wA=' }, 'base64').message.value, Buffer.from([255, 0]));
  assert.throws(() => encodeMessage({ value: { a: 1 } }, 'string'), { httpStatus: 400 });
});

test('an empty key differs from none', () => {
  assert.equal(encodeMessage({ key: '', value: 1 }).message.key.length, 0);
  assert.equal(encodeMessage({ key: null, value: 1 }).message.key, undefined);
  assert.equal(encodeMessage({ value: 1 }).message.key, undefined);
});

test('headers may repeat and may be null', () => {
  const headers = JSON.parse('{"a": ["1", "2"], "b": null, "__proto__": "x"}');
  const { rawHeaders } = encodeMessage({ value: 1, headers }).message;
  assert.deepEqual(
    rawHeaders.map(({ name, value }) => [name, text(value)]),
    [
      ['a', '1'],
      ['a', '2'],
      ['b', undefined],
      ['__proto__', 'x'],
    ],
  );
});

test('the size counts key, value and headers', () => {
  const small = encodeMessage({ value: 1 }).bytes;
  assert.equal(encodeMessage({ key: 'kk', value: 1, headers: { h: 'vvv' } }).bytes, small + 2 + 4);
});
