// One channel to a gRPC service: loads the protocol, opens stubs, makes calls with deadlines. Reconnects by itself.
import path from 'node:path';
import { fileURLToPath } from 'node:url';

import * as grpc from '@grpc/grpc-js';
import protoLoader from '@grpc/proto-loader';

import { callMetadata, channelCredentials } from '../utils/grpcSecurity.js';
import { fromRpcError } from '../utils/rpcErrors.js';

const PROTO_DIR = path.join(path.dirname(fileURLToPath(import.meta.url)), '../../proto');
const LOADED = {
  includeDirs: [PROTO_DIR],
  longs: Number,
  enums: String,
  defaults: true,
  arrays: true,
  oneofs: true,
};
const CHANNEL = {
  'grpc.keepalive_time_ms': 20_000,
  'grpc.keepalive_timeout_ms': 10_000,
  'grpc.initial_reconnect_backoff_ms': 100,
  'grpc.min_reconnect_backoff_ms': 100,
  'grpc.max_reconnect_backoff_ms': 2_000,
  'grpc.max_receive_message_length': 64 << 20,
  'grpc.max_send_message_length': 64 << 20,
};
const HEALTH_MS = 2_000;

export class Connection {
  #channel;
  #credentials;
  #protocol;
  #security;
  #stubs = new Map();

  /** `protoFiles` are paths below proto/; the health protocol is always loaded. */
  constructor(url, protoFiles, security) {
    const files = [...protoFiles, 'grpc/health/v1/health.proto'];
    this.url = url;
    this.isClosed = false;
    this.#protocol = grpc.loadPackageDefinition(protoLoader.loadSync(files, LOADED));
    this.#security = security;
    this.#credentials = channelCredentials(security);
    this.#channel = new grpc.Channel(url, this.#credentials, CHANNEL);
  }

  /** The stub of a service, such as `penstock.v1.Producer`. */
  stub(name) {
    if (!this.#stubs.has(name)) {
      const Stub = name.split('.').reduce((found, part) => found[part], this.#protocol);
      const options = { channelOverride: this.#channel };
      this.#stubs.set(name, new Stub(this.url, this.#credentials, options));
    }
    return this.#stubs.get(name);
  }

  /** Metadata of a call, with the token if there is one. */
  metadata(options) {
    return callMetadata(this.#security, options);
  }

  /**
   * A unary call. Without `failFast` it waits for a service that is down or restarts, until the deadline: such a
   * request was not sent, so nothing happens twice. Rejects with a ServiceError.
   */
  call(service, method, request, { timeoutMs, failFast = false, signal }) {
    return new Promise((resolve, reject) => {
      const metadata = this.metadata({ waitForReady: !failFast });
      const options = { deadline: Date.now() + timeoutMs };
      const cancel = () => sent.cancel();
      const sent = this.stub(service)[method](request, metadata, options, (error, response) => {
        signal?.removeEventListener('abort', cancel);
        if (error) reject(fromRpcError(error));
        else resolve(response);
      });
      if (signal?.aborted) cancel();
      signal?.addEventListener('abort', cancel, { once: true });
    });
  }

  /** Whether the service says that it serves: SERVING, NOT_SERVING (no broker answers) or UNREACHABLE. */
  async health() {
    try {
      const limits = { timeoutMs: HEALTH_MS, failFast: true };
      return (await this.call('grpc.health.v1.Health', 'check', { service: '' }, limits)).status;
    } catch {
      return 'UNREACHABLE';
    }
  }

  close() {
    this.isClosed = true;
    this.#channel.close();
  }
}
