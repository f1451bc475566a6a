// GET /health/live: the process runs. GET /health/ready (and /health): messages can be written.
import { Router } from 'express';

export function healthRoutes({ client, batches, state }) {
  const router = Router();
  router.get('/live', (request, response) => {
    response.json({ status: 'alive' });
  });
  const ready = async (request, response) => {
    const producer = await client.health();
    const isReady = producer === 'SERVING' && !state.isStopping;
    const status = state.isStopping ? 'stopping' : isReady ? 'ready' : 'not ready';
    response
      .status(isReady ? 200 : 503)
      .json({ status, producerService: producer, pendingMessages: batches.pendingMessages });
  };
  router.get('/', ready);
  router.get('/ready', ready);
  return router;
}
