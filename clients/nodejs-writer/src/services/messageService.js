// Turns messages of REST requests into messages of the producer service, and outcomes into answers.
import { ServiceError } from '../utils/rpcErrors.js';

const ACK_LEVELS = { none: 'ACK_LEVEL_NONE', leader: 'ACK_LEVEL_LEADER', all: 'ACK_LEVEL_ALL' };
const PARTITIONERS = { key: 'PARTITIONER_KEY', 'round-robin': 'PARTITIONER_ROUND_ROBIN' };
const DELIVERIES = {
  'at-most-once': 'DELIVERY_MODE_AT_MOST_ONCE',
  'at-least-once': 'DELIVERY_MODE_AT_LEAST_ONCE',
  'exactly-once': 'DELIVERY_MODE_EXACTLY_ONCE',
};
const RECORD_OVERHEAD_BYTES = 64;

export class MessageService {
  constructor({ batches, ackLevel, metrics }) {
    this.batches = batches;
    this.ackLevel = ackLevel;
    this.metrics = metrics;
  }

  /** Writes one message, together with those of other requests. */
  async send({ topic, ...body }) {
    const outcome = await this.batches.submit(
      topic,
      this.#options(body),
      encodeMessage(body, body.valueFormat),
    );
    this.#count(topic, [outcome]);
    if (outcome.error) throw outcome.error;
    return { topic, ...outcome };
  }

  /** Writes messages in order, as one request. Some of them may fail. */
  async sendBatch({ topic, messages, ...body }) {
    const encoded = messages.map((one) => encodeMessage(one, body.valueFormat));
    const outcomes = await this.batches.submitAll(topic, this.#options(body), encoded);
    this.#count(topic, outcomes);
    const results = outcomes.map((one) => (one.error ? { error: one.error.toJSON() } : one));
    return { topic, results, failedCount: outcomes.filter((one) => one.error).length };
  }

  #options({ ackLevel = this.ackLevel, partitioner, delivery, valueFormat, avroSchema }) {
    return {
      ackLevel: ACK_LEVELS[ackLevel],
      partitioner: PARTITIONERS[partitioner],
      delivery: DELIVERIES[delivery],
      valueSerializer:
        valueFormat === 'avro'
          ? { format: 'FORMAT_AVRO', avroSchema: JSON.stringify(avroSchema) }
          : undefined,
    };
  }

  #count(topic, outcomes) {
    for (const { error } of outcomes)
      this.metrics?.messages.inc({ outcome: error ? error.reason : 'written' });
  }
}

/** A message of the service and its size. A null value is a record without a value. */
export function encodeMessage({ key, value, headers, partition, timestamp }, valueFormat = 'json') {
  const rawHeaders = encodeHeaders(headers);
  const message = {
    key: key == null ? undefined : Buffer.from(key),
    value: value === null ? undefined : encodeValue(value, valueFormat),
    timestamp,
    partition,
    rawHeaders,
  };
  const headerBytes = rawHeaders.reduce(
    (total, one) => total + one.name.length + (one.value?.length ?? 0),
    0,
  );
  const bytes =
    (message.key?.length ?? 0) + (message.value?.length ?? 0) + headerBytes + RECORD_OVERHEAD_BYTES;
  return { message, bytes };
}

function encodeValue(value, valueFormat) {
  if (valueFormat === 'json' || valueFormat === 'avro') return Buffer.from(JSON.stringify(value));
  if (typeof value !== 'string') {
    throw new ServiceError(
      400,
      'INVALID_REQUEST',
      `Invalid request: value must be a string for valueFormat ${valueFormat}.`,
    );
  }
  return Buffer.from(value, valueFormat === 'base64' ? 'base64' : 'utf8');
}

function encodeHeaders(headers = {}) {
  return Object.entries(headers).flatMap(([name, values]) =>
    [values].flat().map((value) => ({ name, value: value === null ? undefined : Buffer.from(value) })),
  );
}
