// Metrics of the writer in Prometheus' format.
import { Counter, Gauge, Histogram, Registry, collectDefaultMetrics } from 'prom-client';

const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

export function createMetrics({ prefix = 'penstock_writer_', defaults = true } = {}) {
  const registry = new Registry();
  const registers = [registry];
  if (defaults) collectDefaultMetrics({ register: registry, prefix });
  const metrics = {
    registry,
    requests: new Histogram({
      name: `${prefix}http_request_seconds`,
      help: 'Duration of HTTP requests.',
      labelNames: ['method', 'route', 'status'],
      buckets: SECONDS,
      registers,
    }),
    messages: new Counter({
      name: `${prefix}messages_total`,
      help: 'Messages by outcome: written, or the reason of the failure.',
      labelNames: ['outcome'],
      registers,
    }),
    rejected: new Counter({
      name: `${prefix}rejected_total`,
      help: 'Requests refused with 429 because too many messages were pending.',
      registers,
    }),
    batchMessages: new Histogram({
      name: `${prefix}batch_messages`,
      help: 'Messages per request to the producer service.',
      buckets: [1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 10_000],
      registers,
    }),
  };
  metrics.watchPending = (batches) =>
    new Gauge({
      name: `${prefix}pending_messages`,
      help: 'Messages accepted and not acknowledged yet.',
      registers,
      collect() {
        this.set(batches.pendingMessages);
      },
    });
  return metrics;
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
