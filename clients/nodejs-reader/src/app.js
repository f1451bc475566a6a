// Builds the Express application from its parts. Opens no socket.
import express from 'express';

import { authenticate } from './api/middleware/auth.js';
import { errorHandler, notFound, requestId } from './api/middleware/errors.js';
import { requireJson } from './api/middleware/validation.js';
import { healthRoutes } from './api/routes/health.js';
import { offsetRoutes } from './api/routes/offsets.js';
import { subscriptionRoutes } from './api/routes/subscriptions.js';
import { measureRequests, serveMetrics } from './utils/metrics.js';

export function createApp({ config, client, consumer, subscriptions, streams, metrics, logger, state }) {
  const app = express();
  app.disable('x-powered-by');
  app.disable('etag');
  app.use(requestId, measureRequests(metrics), closeWhenStopping(state));
  app.use('/health', healthRoutes({ client, consumer, subscriptions, streams, state }));
  app.get('/metrics', serveMetrics(metrics));
  app.use('/api/v1', authenticate(config.tokens), requireJson, express.json({ limit: config.bodyBytesMax }));
  const { groupId, sessionTimeout, autoCommitInterval } = config.consumer;
  const defaults = { groupId, sessionTimeout, autoCommitInterval };
  app.use('/api/v1/subscriptions', subscriptionRoutes({ subscriptions, defaults }));
  app.use('/api/v1/offsets', offsetRoutes({ client }));
  app.use(notFound, errorHandler(logger));
  return app;
}

function closeWhenStopping(state) {
  return (request, response, next) => {
    if (state.isStopping) response.set('Connection', 'close');
    next();
  };
}
