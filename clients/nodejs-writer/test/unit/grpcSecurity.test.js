import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';

import * as grpc from '@grpc/grpc-js';

import { readConfig } from '../../src/config/config.js';
import { Connection } from '../../src/producer/connection.js';

const HEALTH = {
  Check: {
    path: '/grpc.health.v1.Health/Check',
    requestStream: false,
    responseStream: false,
    requestDeserialize: (bytes) => bytes,
    responseSerialize: () => Buffer.from([8, 1]), // SERVING
  },
};

/** A health service over TLS with a certificate of its own, for 127.0.0.1; keeps the tokens of its callers. */
async function serve(home) {
  const file = (name) => path.join(home, name);
  const subject = ['-subj', '/CN=test', '-addext', 'subjectAltName=IP:127.0.0.1'];
  const made = ['-x509', '-nodes', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-days', '2'];
  const out = ['-keyout', file('key.pem'), '-out', file('cert.pem')];
  execFileSync('openssl', ['req', ...made, ...subject, ...out], { stdio: 'ignore' });
  const [private_key, cert_chain] = ['key.pem', 'cert.pem'].map((name) => readFileSync(file(name)));
  const server = new grpc.Server();
  const tokens = [];
  const Check = (call, reply) => {
    tokens.push(call.metadata.get('authorization')[0]);
    reply(null, {});
  };
  server.addService(HEALTH, { Check });
  const credentials = grpc.ServerCredentials.createSsl(null, [{ private_key, cert_chain }]);
  const port = await new Promise((resolve, reject) =>
    server.bindAsync('127.0.0.1:0', credentials, (error, found) => (error ? reject(error) : resolve(found))),
  );
  return { server, tokens, url: `127.0.0.1:${port}`, ca: file('cert.pem') };
}

const check = (connection, failFast = false) =>
  connection.call('grpc.health.v1.Health', 'check', { service: '' }, { timeoutMs: 120_000, failFast });

test('calls are encrypted and carry the token, which may change', async () => {
  const home = mkdtempSync(path.join(tmpdir(), 'grpc-'));
  const service = await serve(home);
  const tokenFile = path.join(home, 'token');
  const settings = { GRPC_TLS_CA: service.ca, GRPC_TOKEN_FILE: tokenFile };
  const secured = new Connection(service.url, [], readConfig(settings).grpcSecurity);
  const plain = new Connection(service.url, []);
  try {
    for (const token of ['one', 'two']) {
      writeFileSync(tokenFile, `${token}\n`);
      assert.equal((await check(secured)).status, 'SERVING');
    }
    assert.deepEqual(service.tokens, ['Bearer one', 'Bearer two']);
    await assert.rejects(check(plain, true));
  } finally {
    secured.close();
    plain.close();
    service.server.forceShutdown();
  }
});

test('settings that contradict each other, or would show the token, are refused', () => {
  assert.throws(() => readConfig({ GRPC_TLS_CERT: 'x' }), /GRPC_TLS_CERT and GRPC_TLS_KEY belong together/);
  assert.throws(() => readConfig({ GRPC_TOKEN: 'x', GRPC_TOKEN_FILE: 'y' }), /exclude each other/);
  const away = { GRPC_TOKEN: 'x', PRODUCER_URL: 'host:1' };
  assert.throws(() => readConfig(away), /sent to host:1 without TLS/);
  assert.equal(readConfig({ ...away, GRPC_TLS: 'true' }).grpcSecurity.tls, true);
  assert.equal(readConfig({ GRPC_TOKEN: 'x' }).grpcSecurity.token, 'x');
});
