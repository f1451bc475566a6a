import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';

import dotenv from 'dotenv';

import { readConfig } from '../../src/config/config.js';
import { readConfigFile } from '../../src/config/configFile.js';

test('the example holds the defaults, all of them', () => {
  const example = dotenv.parse(readFileSync(new URL('../../.env.example', import.meta.url)));
  assert.deepEqual(readConfig(example), readConfig({}));
  assert.equal(readConfig({}).port, 3002);
});

test('all errors are reported together', () => {
  assert.throws(() => readConfig({ PORT: 'x', FORMAT: 'xml' }), /PORT must be a number; FORMAT/);
});

test('without tokens it listens on the loopback address only', () => {
  assert.throws(() => readConfig({ HOST: '0.0.0.0' }), /AUTH_TOKENS is empty/);
  assert.deepEqual(readConfig({ HOST: '0.0.0.0', AUTH_TOKENS: ' a, b,' }).tokens, ['a', 'b']);
});

test('the settings of the consumer', () => {
  const { consumer } = readConfig({ TOPICS: 'user-events, system-logs', AUTO_COMMIT: 'false' });
  assert.deepEqual(consumer, {
    groupId: 'nodejs-reader-group',
    topics: ['user-events', 'system-logs'],
    fromBeginning: false,
    sessionTimeout: 10_000,
    autoCommit: false,
    autoCommitInterval: 5_000,
  });
  assert.throws(() => readConfig({ FORMAT: 'avro' }), /AVRO_SCHEMA/);
});

test('settings from the file that all parts share', () => {
  const file = path.join(mkdtempSync(path.join(tmpdir(), 'config-')), 'config.yaml');
  writeFileSync(
    file,
    'coordinator:\n  port: 8080\nnodejs_reader:\n  port: 4000\n  consumer_url: localhost:9094\n',
  );
  const found = readConfigFile(file, 'nodejs_reader');
  assert.deepEqual(found, { PORT: '4000', CONSUMER_URL: 'localhost:9094' });
  assert.equal(readConfig(found).port, 4000);
  assert.deepEqual(readConfigFile('', 'nodejs_reader'), {});
  assert.deepEqual(readConfigFile(file, 'elsewhere'), {});
  writeFileSync(file, 'nodejs_reader: [1');
  assert.throws(() => readConfigFile(file, 'nodejs_reader'), /Cannot read CONFIG_FILE/);
  writeFileSync(file, 'nodejs_reader: 1');
  assert.throws(() => readConfigFile(file, 'nodejs_reader'), /not a section/);
});
