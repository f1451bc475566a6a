// Metrics of the reader in Prometheus' format.
import { Counter, Gauge, Histogram, Registry, collectDefaultMetrics } from 'prom-client';

const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

export function createMetrics({ prefix = 'penstock_reader_', defaults = true } = {}) {
  const registry = new Registry();
  const registers = [registry];
  if (defaults) collectDefaultMetrics({ register: registry, prefix });
  return {
    registry,
    requests: new Histogram({
      name: `${prefix}http_request_seconds`,
      help: 'Duration of HTTP requests.',
      labelNames: ['method', 'route', 'status'],
      buckets: SECONDS,
      registers,
    }),
    handled: new Counter({
      name: `${prefix}handled_total`,
      help: 'Messages handled by the consumer of this process.',
      labelNames: ['topic'],
      registers,
    }),
    retried: new Counter({
      name: `${prefix}retried_total`,
      help: 'Attempts to handle a message that failed and were repeated.',
      labelNames: ['topic'],
      registers,
    }),
    deadLetters: new Counter({
      name: `${prefix}dead_letters_total`,
      help: 'Messages written to a dead letter topic.',
      labelNames: ['topic'],
      registers,
    }),
    sockets: new Gauge({ name: `${prefix}sockets`, help: 'Open WebSockets.', registers }),
  };
}

/** Measures every request. Routes, not paths, are labels: their number is bounded. */
export function measureRequests(metrics) {
  return (request, response, next) => {
    const end = metrics.requests.startTimer({ method: request.method });
    response.once('close', () => {
      const route = request.route ? `${request.baseUrl}${request.route.path}` : 'none';
      end({ route, status: response.statusCode });
    });
    next();
  };
}

export function serveMetrics(metrics) {
  return async (request, response) => {
    response.type(metrics.registry.contentType).send(await metrics.registry.metrics());
  };
}
