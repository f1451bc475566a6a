// Subscriptions of REST clients: create, poll, commit, delete.
import { Router } from 'express';

import { viewMessage } from '../../handlers/view.js';
import { ServiceError } from '../../utils/rpcErrors.js';
import { createProcessor } from '../../processors/processor.js';
import { offsetsBody, pollQuery, subscriptionBody } from '../schemas.js';
import { validateBody, validated } from '../middleware/validation.js';

export function subscriptionRoutes({ subscriptions, defaults }) {
  const router = Router();
  router.post('/', validateBody(subscriptionBody), async (request, response) => {
    const { format, avroSchema, ...options } = request.body;
    const processor = openProcessor(format, avroSchema);
    const created = await subscriptions.create({ ...defaults, ...options, processor });
    response.status(201).location(`${request.baseUrl}/${created.id}`).json(created.describe());
  });
  router.get('/', (request, response) => {
    response.json({ subscriptions: subscriptions.all.map((one) => one.describe()) });
  });
  router.get('/:id', (request, response) => {
    response.json(subscriptions.get(request.params.id).describe());
  });
  router.delete('/:id', async (request, response) => {
    await subscriptions.remove(request.params.id);
    response.status(204).end();
  });
  router.get('/:id/messages', async (request, response) => {
    const subscription = subscriptions.get(request.params.id);
    const { max, waitMs } = validated(pollQuery, request.query);
    const found = await subscription.poll(max, waitMs);
    response.json({ messages: found.map((one) => viewMessage(one, subscription.processor)) });
  });
  router.post('/:id/offsets', validateBody(offsetsBody), async (request, response) => {
    await subscriptions.get(request.params.id).commit(request.body.offsets);
    response.json({ committed: request.body.offsets });
  });
  return router;
}

export function openProcessor(format, avroSchema) {
  try {
    return createProcessor(format, { avroSchema });
  } catch (error) {
    throw new ServiceError(400, 'INVALID_REQUEST', `Invalid request: ${error.message}.`);
  }
}
