// GET and POST /api/v1/topics, GET /api/v1/topics/:name.
import { Router } from 'express';

import { topicBody, topicName } from '../schemas.js';
import { validateBody, validated } from '../middleware/validation.js';

export function topicRoutes({ client }) {
  const router = Router();
  router.get('/', async (request, response) => {
    response.json({ topics: await client.listTopics() });
  });
  router.get('/:name', async (request, response) => {
    response.json(await client.describeTopic(validated(topicName.label('name'), request.params.name)));
  });
  router.post('/', validateBody(topicBody), async (request, response) => {
    const { created } = await client.createTopic(request.body);
    response.status(created ? 201 : 200).json({ name: request.body.name, created });
  });
  return router;
}
