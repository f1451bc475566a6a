// POST /api/v1/messages and /api/v1/messages/batch.
import { Router } from 'express';

import { batchBody, messageBody } from '../schemas.js';
import { validateBody } from '../middleware/validation.js';

export function messageRoutes({ messages, batchMessagesMax }) {
  const router = Router();
  router.post('/', validateBody(messageBody), async (request, response) => {
    response.status(201).json(await messages.send(request.body));
  });
  router.post('/batch', validateBody(batchBody(batchMessagesMax)), async (request, response) => {
    const answer = await messages.sendBatch(request.body);
    response.status(answer.failedCount > 0 ? 207 : 201).json(answer);
  });
  return router;
}
