// What REST requests may contain.
import Joi from 'joi';

export const topicName = Joi.string().pattern(/^[A-Za-z0-9._-]{1,249}$/, 'topic name');
const headerValue = Joi.string().allow('', null);

const message = {
  key: Joi.string().allow('', null),
  value: Joi.any().required(),
  headers: Joi.object().pattern(
    Joi.string().allow('').max(1_024),
    Joi.alternatives(headerValue, Joi.array().items(headerValue).max(100)),
  ),
  partition: Joi.number().integer().min(0).max(2_147_483_647).strict(),
  timestamp: Joi.number().integer().min(0).strict(),
};

const options = {
  topic: topicName.required(),
  ackLevel: Joi.valid('none', 'leader', 'all'),
  partitioner: Joi.valid('key', 'round-robin'),
  delivery: Joi.valid('at-most-once', 'at-least-once', 'exactly-once'),
  valueFormat: Joi.valid('json', 'string', 'base64', 'avro').default('json'),
  avroSchema: Joi.alternatives(Joi.object(), Joi.array(), Joi.string()).when('valueFormat', {
    is: 'avro',
    then: Joi.required(),
    otherwise: Joi.forbidden(),
  }),
};

export const messageBody = Joi.object({ ...options, ...message });

export function batchBody(messagesMax) {
  const messages = Joi.array().items(Joi.object(message)).min(1).max(messagesMax).required();
  return Joi.object({ ...options, messages });
}

export const topicBody = Joi.object({
  name: topicName.required(),
  partitions: Joi.number().integer().min(1).max(100_000).strict(),
  replicas: Joi.number().integer().min(1).max(1_000).strict(),
  configs: Joi.object().pattern(Joi.string(), Joi.string()),
  ifNotExists: Joi.boolean().strict(),
});
