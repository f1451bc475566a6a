import assert from 'node:assert/strict';
import { test } from 'node:test';

import avro from 'avsc';

import { messageFrame, viewMessage } from '../../src/handlers/view.js';
import { createProcessor, decodeValue } from '../../src/processors/processor.js';

const SCHEMA = { type: 'record', name: 'Order', fields: [{ name: 'item', type: 'string' }] };
const message = (value, extra = {}) => ({
  topic: 't',
  partition: 0,
  offset: 3,
  timestamp: 5,
  key: null,
  value,
  rawHeaders: [],
  ...extra,
});

test('JSON, Avro, text and bytes', () => {
  assert.deepEqual(createProcessor('json').decode(Buffer.from('{"a":1}')), { a: 1 });
  const bytes = avro.Type.forSchema(SCHEMA).toBuffer({ item: 'tea' });
  for (const avroSchema of [SCHEMA, JSON.stringify(SCHEMA)]) {
    assert.equal(createProcessor('avro', { avroSchema }).decode(bytes).item, 'tea');
  }
  assert.equal(createProcessor('string').decode(Buffer.from('é')), 'é');
  assert.equal(createProcessor('binary').decode(Buffer.from([255])), '/w==');
  assert.equal(decodeValue(createProcessor('json'), message(null)), null);
});

test('bytes that do not fit are a permanent error', () => {
  const bad = [
    ['json', Buffer.from('{')],
    ['json', Buffer.from([0x22, 0xff, 0x22])],
    ['string', Buffer.from([0xff])],
    ['avro', Buffer.from([200, 1])],
  ];
  for (const [format, bytes] of bad) {
    const processor = createProcessor(format, { avroSchema: SCHEMA });
    assert.throws(() => processor.decode(bytes), { name: 'ProcessingError', isPermanent: true }, format);
  }
  assert.throws(() => createProcessor('avro', { avroSchema: '{' }), /invalid Avro schema/);
  assert.throws(() => createProcessor('avro'), /needs avroSchema/);
  assert.throws(() => createProcessor('xml'), /unknown format/);
});

test('clients see text, repeated headers, and values that cannot be read', () => {
  const rawHeaders = [
    { name: 'a', value: Buffer.from('1') },
    { name: 'a', value: Buffer.from('2') },
    { name: 'b' },
  ];
  const seen = viewMessage(
    message(Buffer.from('1'), { key: Buffer.from('k'), rawHeaders }),
    createProcessor('json'),
  );
  assert.deepEqual([seen.key, seen.value, seen.headers], ['k', 1, { a: ['1', '2'], b: null }]);
  const broken = viewMessage(message(Buffer.from('{')), createProcessor('json'));
  assert.equal(broken.raw, 'ew==');
  assert.match(broken.error, /not JSON/);
});

test('a frame is encoded once per format', () => {
  const one = message(Buffer.from('1'));
  assert.equal(messageFrame(one, createProcessor('json')), messageFrame(one, createProcessor('json')));
  assert.notEqual(messageFrame(one, createProcessor('json')), messageFrame(one, createProcessor('string')));
});
