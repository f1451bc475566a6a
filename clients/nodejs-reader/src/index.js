// Starts the reader: a consumer group, REST and WebSockets in front of the gRPC consumer service.
import { Streaming } from './api/websocket/streaming.js';
import { createApp } from './app.js';
import { loadConfig } from './config/config.js';
import { ConfigError } from './config/configFile.js';
import { ConsumerClient } from './consumer/client.js';
import { FeedHub } from './consumer/feed.js';
import { GroupConsumer } from './consumer/group.js';
import { Subscriptions } from './consumer/subscriptions.js';
import { DeadLetters } from './handlers/deadLetters.js';
import { ErrorHandler } from './handlers/errorHandler.js';
import { createMessageHandler, loadProcess } from './handlers/messageHandler.js';
import { createProcessor } from './processors/processor.js';
import { closeServer, listen } from './utils/httpServer.js';
import { createLogger } from './utils/logger.js';
import { createMetrics } from './utils/metrics.js';
import { onSignals, settlesWithin } from './utils/shutdown.js';

const ANSWER_MS = 1_000;

/** The consumer of the configured topics; null without topics. */
async function openConsumer({ config, client, logger, metrics, deadLetters }) {
  if (config.consumer.topics.length === 0) return null;
  const consumer = new GroupConsumer({ client, logger, ...config.consumer });
  const processor = createProcessor(config.format, { avroSchema: config.avroSchema });
  const process = await loadProcess(config.messageHandler, logger);
  const { retries, retryBackoffMs: backoffMs } = config;
  const errors = new ErrorHandler({ retries, backoffMs, deadLetters, logger, metrics });
  const commitsEach = !config.consumer.autoCommit;
  consumer.on(
    'message',
    createMessageHandler({ consumer, processor, process, errors, metrics, commitsEach }),
  );
  consumer.on('error', () => {}); // logged; the state is in the health check
  return consumer;
}

function openDeadLetters({ producerUrl, hasDeadLetters, requestTimeoutMs, consumer, grpcSecurity }) {
  if (!hasDeadLetters || consumer.topics.length === 0) return null;
  return new DeadLetters({
    url: producerUrl,
    groupId: consumer.groupId,
    timeoutMs: requestTimeoutMs,
    security: grpcSecurity,
  });
}

async function start() {
  const config = loadConfig();
  const logger = createLogger({ level: config.logLevel, format: config.logFormat });
  const metrics = createMetrics();
  const client = new ConsumerClient({
    url: config.consumerUrl,
    timeoutMs: config.requestTimeoutMs,
    security: config.grpcSecurity,
  });
  const deadLetters = openDeadLetters(config);
  const consumer = await openConsumer({ config, client, logger, metrics, deadLetters });
  const { subscriptionsMax, subscriptionIdleMs: idleMs } = config;
  const subscriptions = new Subscriptions({ client, logger, subscriptionsMax, idleMs });
  const hub = new FeedHub({ client, groupId: config.consumer.groupId, logger });
  const { sessionTimeout } = config.consumer;
  const defaults = { sessionTimeout, autoCommitInterval: config.socketCommitIntervalMs };
  const streams = new Streaming({ config, client, hub, logger, metrics, defaults });
  const state = { isStopping: false };
  const app = createApp({ config, client, consumer, subscriptions, streams, metrics, logger, state });
  const server = await listen(app, config);
  server.on('upgrade', (request, socket, head) => streams.upgrade(request, socket, head));
  const { address, port } = server.address();
  logger.info('listening', { address, port, consumer: config.consumerUrl });
  if (config.tokens.length === 0) logger.warn('authentication is off: AUTH_TOKENS is empty');
  consumer?.start();

  onSignals(async () => {
    state.isStopping = true;
    const closed = closeServer(server, config.readyFile);
    const parts = [consumer?.stop(), subscriptions.close(), streams.close().then(() => hub.close())];
    await settlesWithin(Promise.allSettled(parts), config.shutdownMs);
    client.close();
    deadLetters?.close();
    if (!(await settlesWithin(closed, ANSWER_MS))) {
      streams.terminate();
      server.closeAllConnections();
    }
    await closed;
  }, logger);
}

try {
  await start();
} catch (error) {
  const logger = createLogger();
  const isExpected = error instanceof ConfigError || ['EADDRINUSE', 'EACCES'].includes(error.code);
  logger.error(`cannot start: ${error.message}`, isExpected ? {} : { stack: error.stack });
  process.exit(1);
}
