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
  assert.equal(readConfig({}).port, 3001);
});

test('all errors are reported together', () => {
  assert.throws(() => readConfig({ PORT: 'x', ACK_LEVEL: 'some' }), /PORT must be a number; ACK_LEVEL/);
});

test('without tokens it listens on the loopback address only', () => {
  assert.throws(() => readConfig({ HOST: '0.0.0.0' }), /AUTH_TOKENS is empty/);
  assert.deepEqual(readConfig({ HOST: '0.0.0.0', AUTH_TOKENS: ' a, b,' }).tokens, ['a', 'b']);
});

test('settings from the file that all parts share', () => {
  const file = path.join(mkdtempSync(path.join(tmpdir(), 'config-')), 'config.yaml');
  writeFileSync(
    file,
    'coordinator:\n  port: 8080\nnodejs_writer:\n  port: 4000\n  producer_url: localhost:9093\n',
  );
  const found = readConfigFile(file, 'nodejs_writer');
  assert.deepEqual(found, { PORT: '4000', PRODUCER_URL: 'localhost:9093' });
  assert.equal(readConfig(found).port, 4000);
  assert.deepEqual(readConfigFile('', 'nodejs_writer'), {});
  assert.deepEqual(readConfigFile(file, 'elsewhere'), {});
  writeFileSync(file, 'nodejs_writer: [1');
  assert.throws(() => readConfigFile(file, 'nodejs_writer'), /Cannot read CONFIG_FILE/);
  writeFileSync(file, 'nodejs_writer: 1');
  assert.throws(() => readConfigFile(file, 'nodejs_writer'), /not a section/);
});
