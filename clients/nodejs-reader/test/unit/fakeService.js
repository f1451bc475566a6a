// A consumer service in this process, on a real gRPC server: the test plays its side of each stream by hand.
import path from 'node:path';
import { fileURLToPath } from 'node:url';

import * as grpc from '@grpc/grpc-js';
import protoLoader from '@grpc/proto-loader';

import { ConsumerClient } from '../../src/consumer/client.js';

const PROTO_DIR = path.join(path.dirname(fileURLToPath(import.meta.url)), '../../proto');
const LOADED = { includeDirs: [PROTO_DIR], longs: Number, enums: String, defaults: true, oneofs: true };

export class FakeService {
  #streams = [];
  #waiting = [];

  static async start() {
    const service = new FakeService();
    const definition = protoLoader.loadSync(['penstock/v1/consumer.proto'], LOADED);
    const { Consumer } = grpc.loadPackageDefinition(definition).penstock.v1;
    service.server = new grpc.Server();
    service.server.addService(Consumer.service, { Subscribe: (call) => service.#accept(call) });
    const port = await new Promise((resolve, reject) => {
      const credentials = grpc.ServerCredentials.createInsecure();
      service.server.bindAsync('127.0.0.1:0', credentials, (error, found) =>
        error ? reject(error) : resolve(found),
      );
    });
    service.client = new ConsumerClient({ url: `127.0.0.1:${port}`, timeoutMs: 10_000 });
    return service;
  }

  /** The next stream that a member opens. */
  async stream() {
    if (this.#streams.length === 0) await new Promise((resolve) => this.#waiting.push(resolve));
    return this.#streams.shift();
  }

  stop() {
    this.client.close();
    this.server.forceShutdown();
  }

  #accept(call) {
    this.#streams.push(new FakeStream(call));
    this.#waiting.splice(0).forEach((resolve) => resolve());
  }
}

class FakeStream {
  #requests = [];
  #waiting = [];

  constructor(call) {
    this.call = call;
    this.confirmsCommits = true;
    call.on('data', (request) => {
      this.#requests.push(request);
      this.#waiting.splice(0).forEach((resolve) => resolve());
      if (request.request === 'commit' && this.confirmsCommits) this.#confirm(request.commit);
    });
    call.on('end', () => call.end());
    call.on('error', () => {});
  }

  /** The next request of this kind; others before it are skipped. */
  async until(kind) {
    for (;;) {
      while (this.#requests.length === 0) await new Promise((resolve) => this.#waiting.push(resolve));
      const request = this.#requests.shift();
      if (request.request === kind) return request[kind];
    }
  }

  assign(...partitions) {
    this.call.write({ assigned: { partitions: partitions.map((partition) => ({ topic: 't', partition })) } });
  }

  revoke(...partitions) {
    this.call.write({ revoked: { partitions: partitions.map((partition) => ({ topic: 't', partition })) } });
  }

  /** Messages with these offsets; the value is the offset. */
  batch(partition, ...offsets) {
    const messages = offsets.map((offset) => ({ value: Buffer.from(String(offset)), partition, offset }));
    this.call.write({ batch: { topic: 't', partition, messages, nextOffset: offsets.at(-1) + 1 } });
  }

  #confirm({ requestId, offsets }) {
    this.call.write({ committed: { requestId, offsets } });
  }

  end(code, details) {
    this.call.emit('error', { code, details });
  }
}
