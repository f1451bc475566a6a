import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { createApp } from '../../src/app.js';
import { readConfig } from '../../src/config/config.js';
import { BatchService } from '../../src/services/batchService.js';
import { MessageService } from '../../src/services/messageService.js';
import { listen } from '../../src/utils/httpServer.js';
import { silentLogger } from '../../src/utils/logger.js';
import { createMetrics } from '../../src/utils/metrics.js';
import { ServiceError } from '../../src/utils/rpcErrors.js';

const TOKEN = 'secret-token';
const requests = [];
const client = {
  health: async () => 'SERVING',
  listTopics: async () => [{ name: 't', partitions: 1, replicas: 1 }],
  createTopic: async () => ({ created: true }),
  async produce(request) {
    if (request.topic === 'nowhere') throw new ServiceError(404, 'NOT_FOUND', 'no such topic');
    requests.push(request);
    const failure = new ServiceError(404, 'NOT_FOUND', 'no such partition');
    return request.messages.map(({ partition }, offset) =>
      partition === 9 ? { error: failure } : { partition: 0, offset, timestamp: 1 },
    );
  },
};
let server;
let url;

before(async () => {
  const config = readConfig({
    AUTH_TOKENS: TOKEN,
    BODY_BYTES_MAX: '2048',
    BATCH_MESSAGES_MAX: '3',
    LINGER_MS: '0',
  });
  const metrics = createMetrics({ defaults: false });
  const batches = new BatchService({ client, limits: config.batching, metrics });
  const messages = new MessageService({ batches, ackLevel: config.ackLevel, metrics });
  const state = { isStopping: false };
  const app = createApp({ config, client, batches, messages, metrics, logger: silentLogger, state });
  server = await listen(app, { host: '127.0.0.1', port: 0 });
  url = `http://127.0.0.1:${server.address().port}`;
});

after(() => server.close());

async function post(path, body, headers = {}) {
  const response = await fetch(url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${TOKEN}`, ...headers },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  });
  return { status: response.status, headers: response.headers, body: await response.json() };
}

test('a message is written with the default acknowledgement level', async () => {
  const { status, body } = await post('/api/v1/messages', { topic: 't', key: 'k', value: { a: 1 } });
  assert.equal(status, 201);
  assert.deepEqual(body, { topic: 't', partition: 0, offset: 0, timestamp: 1 });
  assert.equal(requests.at(-1).ackLevel, 'ACK_LEVEL_ALL');
});

test('a batch answers per message', async () => {
  const messages = [{ value: 1 }, { value: 2, partition: 9 }];
  const { status, body } = await post('/api/v1/messages/batch', { topic: 't', messages });
  assert.equal(status, 207);
  assert.equal(body.failedCount, 1);
  assert.equal(body.results[0].offset, 0);
  assert.equal(body.results[1].error.reason, 'NOT_FOUND');
});

test('tokens are required, and only where they protect something', async () => {
  const refused = await post('/api/v1/messages', { topic: 't', value: 1 }, { authorization: 'Bearer wrong' });
  assert.equal(refused.status, 401);
  assert.equal(refused.headers.get('www-authenticate'), 'Bearer');
  assert.equal((await fetch(`${url}/api/v1/topics`)).status, 401);
  assert.equal((await fetch(`${url}/health/ready`)).status, 200);
  assert.match(await (await fetch(`${url}/metrics`)).text(), /penstock_writer_http_request_seconds/);
});

test('bad requests have clear errors', async () => {
  const cases = [
    ['{"topic":', 400, 'MALFORMED_JSON'],
    ['[1]', 400, 'INVALID_REQUEST'],
    [{}, 400, 'INVALID_REQUEST'],
    [{ topic: 'a b', value: 1 }, 400, 'INVALID_REQUEST'],
    [{ topic: 't', value: 1, partition: '0' }, 400, 'INVALID_REQUEST'],
    [{ topic: 't', value: 1, unknown: 1 }, 400, 'INVALID_REQUEST'],
    [{ topic: 't', value: 1, ackLevel: 'some' }, 400, 'INVALID_REQUEST'],
    [{ topic: 't', value: 1, valueFormat: 'avro' }, 400, 'INVALID_REQUEST'],
    [{ topic: 't', value: 1, valueFormat: 'string' }, 400, 'INVALID_REQUEST'],
    [{ topic: 't', value: 'x'.repeat(4_000) }, 413, 'BODY_TOO_LARGE'],
    [{ topic: 'nowhere', value: 1 }, 404, 'NOT_FOUND'],
  ];
  for (const [body, status, reason] of cases) {
    const answer = await post('/api/v1/messages', body);
    assert.deepEqual([answer.status, answer.body.error.reason], [status, reason], JSON.stringify(body));
    assert.equal(answer.body.error.requestId, answer.headers.get('x-request-id'));
  }
  const many = { topic: 't', messages: Array(4).fill({ value: 1 }) };
  assert.equal((await post('/api/v1/messages/batch', many)).status, 400);
  assert.equal((await post('/api/v1/messages', 'topic=t', { 'content-type': 'text/plain' })).status, 415);
  assert.equal((await post('/api/v1/nothing', {})).body.error.reason, 'NO_SUCH_ENDPOINT');
});

test('topics are created and listed', async () => {
  assert.equal((await post('/api/v1/topics', { name: 'new', partitions: 3 })).status, 201);
  assert.equal((await post('/api/v1/topics', { name: '../x' })).status, 400);
  const listed = await fetch(`${url}/api/v1/topics`, { headers: { authorization: `Bearer ${TOKEN}` } });
  assert.deepEqual(await listed.json(), { topics: [{ name: 't', partitions: 1, replicas: 1 }] });
});
