// Committed offsets and lag of groups; setting them while a group has no members.
import { Router } from 'express';

import { groupName, offsetsBody } from '../schemas.js';
import { validateBody, validated } from '../middleware/validation.js';

export function offsetRoutes({ client }) {
  const router = Router();
  const groupOf = (request) => validated(groupName.label('group'), request.params.group);
  router.get('/', async (request, response) => {
    response.json({ groups: await client.listGroups() });
  });
  router.get('/:group', async (request, response) => {
    const group = groupOf(request);
    response.json({ group, offsets: await client.getOffsets(group) });
  });
  router.put('/:group', validateBody(offsetsBody), async (request, response) => {
    const group = groupOf(request);
    await client.setOffsets(group, request.body.offsets);
    response.json({ group, offsets: request.body.offsets });
  });
  return router;
}
