// Builds the Express application from its parts. Opens no socket.
import express from 'express';

import { authenticate } from './api/middleware/auth.js';
import { errorHandler, notFound, requestId } from './api/middleware/errors.js';
import { requireJson } from './api/middleware/validation.js';
import { healthRoutes } from './api/routes/health.js';
import { messageRoutes } from './api/routes/messages.js';
import { topicRoutes } from './api/routes/topics.js';
import { measureRequests, serveMetrics } from './utils/metrics.js';

export function createApp({ config, client, batches, messages, metrics, logger, state }) {
  const app = express();
  app.disable('x-powered-by');
  app.disable('etag');
  app.use(requestId, measureRequests(metrics), closeWhenStopping(state));
  app.use('/health', healthRoutes({ client, batches, state }));
  app.get('/metrics', serveMetrics(metrics));
  app.use('/api/v1', authenticate(config.tokens));
  // A service that is full says so before it reads a body.
  app.use('/api/v1/messages', (request, response, next) => {
    batches.checkRoom();
    next();
  });
  app.use('/api/v1', requireJson, express.json({ limit: config.bodyBytesMax, strict: true }));
  app.use('/api/v1/messages', messageRoutes({ messages, batchMessagesMax: config.batchMessagesMax }));
  app.use('/api/v1/topics', topicRoutes({ client }));
  app.use(notFound, errorHandler(logger));
  return app;
}

function closeWhenStopping(state) {
  return (request, response, next) => {
    if (state.isStopping) response.set('Connection', 'close');
    next();
  };
}
