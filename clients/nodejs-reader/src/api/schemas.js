// What REST requests and WebSocket addresses may contain.
import Joi from 'joi';

import { FORMATS } from '../processors/processor.js';
import { ServiceError } from '../utils/rpcErrors.js';

const topicName = Joi.string().pattern(/^[A-Za-z0-9._-]{1,249}$/, 'topic name');
export const groupName = Joi.string().min(1).max(255);
const topics = Joi.array().items(topicName).min(1).max(100).unique();
const partition = Joi.number().integer().min(0).max(2_147_483_647);
const offset = Joi.number().integer().min(0);
const format = Joi.valid(...FORMATS).default('json');

const onlyForAvro = (schema) =>
  schema.when('format', { is: 'avro', then: Joi.required(), otherwise: Joi.forbidden() });

export const offsetsBody = Joi.object({
  offsets: Joi.array()
    .items(
      Joi.object({ topic: topicName.required(), partition: partition.required(), offset: offset.required() }),
    )
    .min(1)
    .max(10_000)
    .required(),
});

export const subscriptionBody = Joi.object({
  topics: topics.required(),
  groupId: groupName,
  fromBeginning: Joi.boolean().strict().default(false),
  sessionTimeout: Joi.number().integer().min(1_000).max(1_800_000),
  autoCommit: Joi.boolean().strict().default(true),
  autoCommitInterval: Joi.number().integer().min(10).max(600_000),
  delivery: Joi.valid('at-most-once', 'at-least-once'),
  format,
  avroSchema: onlyForAvro(Joi.alternatives(Joi.object(), Joi.array(), Joi.string())),
});

export const pollQuery = Joi.object({
  max: Joi.number().integer().min(1).max(10_000).default(100),
  waitMs: Joi.number().integer().min(0).max(30_000).default(1_000),
});

export const streamQuery = Joi.object({
  topics: topics.required(),
  group: groupName,
  from: Joi.valid('latest', 'earliest').default('latest'),
  positions: Joi.string().pattern(/^\d{1,10}:\d{1,15}(,\d{1,10}:\d{1,15})*$/, 'partition:offset list'),
  ack: Joi.valid('socket', 'client').default('socket'),
  format,
  avroSchema: onlyForAvro(Joi.string()),
  access_token: Joi.string(),
});

/** `0:42,1:7` → the offsets by partition. */
export function readPositions(text = '') {
  const pairs = text.split(',').filter(Boolean);
  return new Map(pairs.map((pair) => pair.split(':').map(Number)));
}

/** Query parameters of a WebSocket address; `topics` are comma-separated. */
export function readStreamQuery(parameters) {
  const repeated = [...new Set(parameters.keys())].find((name) => parameters.getAll(name).length > 1);
  if (repeated) throw new ServiceError(400, 'INVALID_REQUEST', `Invalid request: ${repeated} is repeated.`);
  const query = Object.fromEntries(parameters);
  return { ...query, ...(query.topics === undefined ? {} : { topics: query.topics.split(',') }) };
}
