// Settings of the reader, from the environment and `.env`. All errors are reported together.
import dotenv from 'dotenv';
import Joi from 'joi';

import { FORMATS } from '../processors/processor.js';
import { readGrpcSecurity } from '../utils/grpcSecurity.js';
import { ConfigError, readConfigFile } from './configFile.js';

const LOOPBACK = new Set(['127.0.0.1', '::1', 'localhost']);

const schema = Joi.object({
  HOST: Joi.string().default('127.0.0.1'),
  PORT: Joi.number().port().default(3002),
  CONSUMER_URL: Joi.string().default('127.0.0.1:9194'),
  PRODUCER_URL: Joi.string().default('127.0.0.1:9193'),
  GRPC_TLS: Joi.boolean().default(false),
  GRPC_TLS_CA: Joi.string().allow('').default(''),
  GRPC_TLS_CERT: Joi.string().allow('').default(''),
  GRPC_TLS_KEY: Joi.string().allow('').default(''),
  GRPC_TOKEN: Joi.string().allow('').default(''),
  GRPC_TOKEN_FILE: Joi.string().allow('').default(''),
  AUTH_TOKENS: Joi.string().allow('').default(''),
  ALLOWED_ORIGINS: Joi.string().allow('').default(''),
  GROUP_ID: Joi.string().min(1).max(200).default('nodejs-reader-group'),
  TOPICS: Joi.string().allow('').default(''),
  FROM_BEGINNING: Joi.boolean().default(false),
  SESSION_TIMEOUT_MS: Joi.number().integer().min(1_000).max(1_800_000).default(10_000),
  AUTO_COMMIT: Joi.boolean().default(true),
  AUTO_COMMIT_INTERVAL_MS: Joi.number().integer().min(10).max(600_000).default(5_000),
  FORMAT: Joi.valid(...FORMATS).default('json'),
  AVRO_SCHEMA: Joi.string().allow('').default(''),
  MESSAGE_HANDLER: Joi.string().allow('').default(''),
  RETRIES: Joi.number().integer().min(0).max(100).default(3),
  RETRY_BACKOFF_MS: Joi.number().integer().min(1).max(60_000).default(200),
  DEAD_LETTERS: Joi.boolean().default(true),
  REQUEST_TIMEOUT_MS: Joi.number().integer().min(1).max(600_000).default(15_000),
  BODY_BYTES_MAX: Joi.number().integer().min(1_024).default(1_048_576),
  SUBSCRIPTIONS_MAX: Joi.number().integer().min(1).default(100),
  SUBSCRIPTION_IDLE_MS: Joi.number().integer().min(1_000).default(300_000),
  SOCKETS_MAX: Joi.number().integer().min(1).default(1_000),
  SOCKET_BUFFER_BYTES: Joi.number().integer().min(1_024).default(1_048_576),
  SOCKET_COMMIT_INTERVAL_MS: Joi.number().integer().min(10).max(600_000).default(1_000),
  SOCKET_SILENCE_MS: Joi.number().integer().min(100).default(60_000),
  SHUTDOWN_MS: Joi.number().integer().min(0).max(600_000).default(10_000),
  READY_FILE: Joi.string().allow('').default(''),
  LOG_LEVEL: Joi.valid('error', 'warn', 'info', 'debug').default('info'),
  LOG_FORMAT: Joi.valid('text', 'json').default('text'),
});

export function readConfig(environment) {
  const options = { abortEarly: false, stripUnknown: true, errors: { wrap: { label: false } } };
  const { error, value } = schema.validate(environment, options);
  const faults = error ? error.details.map((one) => one.message) : [];
  const tokens = list(value.AUTH_TOKENS);
  if (!error && tokens.length === 0 && !LOOPBACK.has(value.HOST)) {
    faults.push(`AUTH_TOKENS is empty: set it, or listen on 127.0.0.1 only instead of ${value.HOST}`);
  }
  if (!error && (value.FORMAT === 'avro') !== (value.AVRO_SCHEMA !== '')) {
    faults.push('AVRO_SCHEMA goes with FORMAT=avro, and with no other');
  }
  const urls = [value.CONSUMER_URL, value.PRODUCER_URL];
  const grpcSecurity = error ? {} : readGrpcSecurity(value, urls, faults);
  if (faults.length > 0) throw new ConfigError(`Invalid settings: ${faults.join('; ')}.`);
  return { ...serviceSettings(value, tokens), ...consumerSettings(value), grpcSecurity };
}

function serviceSettings(value, tokens) {
  return {
    host: value.HOST,
    port: value.PORT,
    consumerUrl: value.CONSUMER_URL,
    producerUrl: value.PRODUCER_URL,
    tokens,
    allowedOrigins: list(value.ALLOWED_ORIGINS),
    requestTimeoutMs: value.REQUEST_TIMEOUT_MS,
    bodyBytesMax: value.BODY_BYTES_MAX,
    subscriptionsMax: value.SUBSCRIPTIONS_MAX,
    subscriptionIdleMs: value.SUBSCRIPTION_IDLE_MS,
    socketsMax: value.SOCKETS_MAX,
    socketBufferBytes: value.SOCKET_BUFFER_BYTES,
    socketCommitIntervalMs: value.SOCKET_COMMIT_INTERVAL_MS,
    socketSilenceMs: value.SOCKET_SILENCE_MS,
    shutdownMs: value.SHUTDOWN_MS,
    readyFile: value.READY_FILE,
    logLevel: value.LOG_LEVEL,
    logFormat: value.LOG_FORMAT,
  };
}

function consumerSettings(value) {
  return {
    consumer: {
      groupId: value.GROUP_ID,
      topics: list(value.TOPICS),
      fromBeginning: value.FROM_BEGINNING,
      sessionTimeout: value.SESSION_TIMEOUT_MS,
      autoCommit: value.AUTO_COMMIT,
      autoCommitInterval: value.AUTO_COMMIT_INTERVAL_MS,
    },
    format: value.FORMAT,
    avroSchema: value.AVRO_SCHEMA || undefined,
    messageHandler: value.MESSAGE_HANDLER,
    retries: value.RETRIES,
    retryBackoffMs: value.RETRY_BACKOFF_MS,
    hasDeadLetters: value.DEAD_LETTERS,
  };
}

function list(text) {
  return String(text ?? '')
    .split(',')
    .map((one) => one.trim())
    .filter(Boolean);
}

/** Environment, then `.env`, then the section nodejs_reader of CONFIG_FILE, then defaults. */
export function loadConfig() {
  dotenv.config({ quiet: true });
  return readConfig({ ...readConfigFile(process.env.CONFIG_FILE, 'nodejs_reader'), ...process.env });
}
