// Starts the writer: REST in front of the gRPC producer service.
import { createApp } from './app.js';
import { loadConfig } from './config/config.js';
import { ConfigError } from './config/configFile.js';
import { ProducerClient } from './producer/client.js';
import { BatchService } from './services/batchService.js';
import { MessageService } from './services/messageService.js';
import { closeServer, listen } from './utils/httpServer.js';
import { createLogger } from './utils/logger.js';
import { createMetrics } from './utils/metrics.js';
import { onSignals, settlesWithin } from './utils/shutdown.js';

const ANSWER_MS = 1_000;

async function start() {
  const config = loadConfig();
  const logger = createLogger({ level: config.logLevel, format: config.logFormat });
  const metrics = createMetrics();
  const client = new ProducerClient({
    url: config.producerUrl,
    timeoutMs: config.requestTimeoutMs,
    security: config.grpcSecurity,
  });
  const batches = new BatchService({ client, limits: config.batching, metrics });
  const messages = new MessageService({ batches, ackLevel: config.ackLevel, metrics });
  const state = { isStopping: false };
  metrics.watchPending(batches);
  const app = createApp({ config, client, batches, messages, metrics, logger, state });
  const server = await listen(app, config);
  const { address, port } = server.address();
  logger.info('listening', { address, port, producer: config.producerUrl });
  if (config.tokens.length === 0) logger.warn('authentication is off: AUTH_TOKENS is empty');

  onSignals(async () => {
    state.isStopping = true;
    const closed = closeServer(server, config.readyFile);
    const isDrained = await settlesWithin(batches.close(), config.shutdownMs);
    if (!isDrained) logger.warn('messages not acknowledged in time', { messages: batches.pendingMessages });
    client.close(); // answers what still waits with 503
    if (!(await settlesWithin(closed, ANSWER_MS))) server.closeAllConnections();
    await closed;
  }, logger);
}

try {
  await start();
} catch (error) {
  const logger = createLogger();
  if (error instanceof ConfigError || error.code === 'EADDRINUSE' || error.code === 'EACCES') {
    logger.error(`cannot start: ${error.message}`);
  } else {
    logger.error('cannot start', { stack: error.stack });
  }
  process.exit(1);
}
