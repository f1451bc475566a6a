// GET /health/live: the process runs. GET /health/ready (and /health): messages can be read.
import { Router } from 'express';

export function healthRoutes({ client, consumer, subscriptions, streams, state }) {
  const router = Router();
  router.get('/live', (request, response) => {
    response.json({ status: 'alive' });
  });
  const ready = async (request, response) => {
    const service = await client.health();
    const isReady = service === 'SERVING' && !state.isStopping && consumer?.state !== 'failed';
    const status = state.isStopping ? 'stopping' : isReady ? 'ready' : 'not ready';
    response.status(isReady ? 200 : 503).json({
      status,
      consumerService: service,
      consumer: consumer
        ? { groupId: consumer.groupId, state: consumer.state, partitions: consumer.partitions.length }
        : null,
      subscriptions: subscriptions.all.length,
      sockets: streams.size,
    });
  };
  router.get('/', ready);
  router.get('/ready', ready);
  return router;
}
