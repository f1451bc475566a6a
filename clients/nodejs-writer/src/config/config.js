// Settings of the writer, from the environment and `.env`. All errors are reported together.
import dotenv from 'dotenv';
import Joi from 'joi';

import { readGrpcSecurity } from '../utils/grpcSecurity.js';
import { ConfigError, readConfigFile } from './configFile.js';

const LOOPBACK = new Set(['127.0.0.1', '::1', 'localhost']);

const schema = Joi.object({
  HOST: Joi.string().default('127.0.0.1'),
  PORT: Joi.number().port().default(3001),
  PRODUCER_URL: Joi.string().default('127.0.0.1:9193'),
  GRPC_TLS: Joi.boolean().default(false),
  GRPC_TLS_CA: Joi.string().allow('').default(''),
  GRPC_TLS_CERT: Joi.string().allow('').default(''),
  GRPC_TLS_KEY: Joi.string().allow('').default(''),
  GRPC_TOKEN: Joi.string().allow('').default(''),
  GRPC_TOKEN_FILE: Joi.string().allow('').default(''),
  AUTH_TOKENS: Joi.string().allow('').default(''),
  ACK_LEVEL: Joi.valid('none', 'leader', 'all').default('all'),
  REQUEST_TIMEOUT_MS: Joi.number().integer().min(1).max(600_000).default(30_000),
  BODY_BYTES_MAX: Joi.number().integer().min(1_024).max(15_000_000).default(4_194_304),
  BATCH_MESSAGES_MAX: Joi.number().integer().min(1).max(100_000).default(10_000),
  BATCH_SIZE: Joi.number().integer().min(1).max(100_000).default(500),
  BATCH_BYTES: Joi.number().integer().min(1_024).max(15_000_000).default(1_048_576),
  LINGER_MS: Joi.number().integer().min(0).max(60_000).default(5),
  REQUESTS_IN_FLIGHT_MAX: Joi.number().integer().min(1).max(1_000).default(5),
  PENDING_MESSAGES_MAX: Joi.number().integer().min(1).default(20_000),
  PENDING_BYTES_MAX: Joi.number().integer().min(1_024).default(67_108_864),
  SHUTDOWN_MS: Joi.number().integer().min(0).max(600_000).default(10_000),
  READY_FILE: Joi.string().allow('').default(''),
  LOG_LEVEL: Joi.valid('error', 'warn', 'info', 'debug').default('info'),
  LOG_FORMAT: Joi.valid('text', 'json').default('text'),
});

export function readConfig(environment) {
  const options = { abortEarly: false, stripUnknown: true, errors: { wrap: { label: false } } };
  const { error, value } = schema.validate(environment, options);
  const faults = error ? error.details.map((one) => one.message) : [];
  const tokens = String(value.AUTH_TOKENS ?? '')
    .split(',')
    .map((one) => one.trim())
    .filter(Boolean);
  if (!error && tokens.length === 0 && !LOOPBACK.has(value.HOST)) {
    faults.push(`AUTH_TOKENS is empty: set it, or listen on 127.0.0.1 only instead of ${value.HOST}`);
  }
  const grpcSecurity = error ? {} : readGrpcSecurity(value, [value.PRODUCER_URL], faults);
  if (faults.length > 0) throw new ConfigError(`Invalid settings: ${faults.join('; ')}.`);
  return {
    host: value.HOST,
    port: value.PORT,
    producerUrl: value.PRODUCER_URL,
    grpcSecurity,
    tokens,
    ackLevel: value.ACK_LEVEL,
    requestTimeoutMs: value.REQUEST_TIMEOUT_MS,
    bodyBytesMax: value.BODY_BYTES_MAX,
    batchMessagesMax: value.BATCH_MESSAGES_MAX,
    batching: {
      sizeMax: value.BATCH_SIZE,
      bytesMax: value.BATCH_BYTES,
      lingerMs: value.LINGER_MS,
      requestsInFlightMax: value.REQUESTS_IN_FLIGHT_MAX,
      pendingMessagesMax: value.PENDING_MESSAGES_MAX,
      pendingBytesMax: value.PENDING_BYTES_MAX,
    },
    shutdownMs: value.SHUTDOWN_MS,
    readyFile: value.READY_FILE,
    logLevel: value.LOG_LEVEL,
    logFormat: value.LOG_FORMAT,
  };
}

/** Environment, then `.env`, then the section nodejs_writer of CONFIG_FILE, then defaults. */
export function loadConfig() {
  dotenv.config({ quiet: true });
  return readConfig({ ...readConfigFile(process.env.CONFIG_FILE, 'nodejs_writer'), ...process.env });
}
