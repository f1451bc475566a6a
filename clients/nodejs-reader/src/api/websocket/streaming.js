// WebSockets at /api/v1/stream: checks the request before the handshake, then runs a stream until either side closes.
import { STATUS_CODES } from 'node:http';

import { WebSocketServer } from 'ws';

import { Limiter } from '../../consumer/fanout.js';
import { ServiceError, fromRpcError } from '../../utils/rpcErrors.js';
import { bearerToken, tokenCheck } from '../middleware/auth.js';
import { validated } from '../middleware/validation.js';
import { openProcessor } from '../routes/subscriptions.js';
import { readStreamQuery, streamQuery } from '../schemas.js';
import { FanoutStream } from './fanoutStream.js';
import { GroupStream } from './groupStream.js';
import { SocketWriter } from './socketWriter.js';

export const STREAM_PATH = '/api/v1/stream';
const INBOUND_BYTES_MAX = 65_536;
const CATCH_UP_FETCHES_MAX = 4;
const GOING_AWAY = 1001;

export class Streaming {
  #sockets = new Map();
  #limiter = new Limiter(CATCH_UP_FETCHES_MAX);
  #server = new WebSocketServer({ noServer: true, maxPayload: INBOUND_BYTES_MAX, perMessageDeflate: false });
  #pings;

  constructor({ config, client, hub, logger, metrics, defaults }) {
    Object.assign(this, { config, client, hub, logger, metrics, defaults });
    this.isKnownToken = tokenCheck(config.tokens);
    this.#pings = setInterval(() => this.#ping(), config.socketSilenceMs);
  }

  get size() {
    return this.#sockets.size;
  }

  /** The listener for a server's 'upgrade' events. */
  async upgrade(request, socket, head) {
    socket.on('error', () => socket.destroy());
    try {
      const { query, processor } = await this.#check(request);
      if (socket.destroyed) return;
      this.#server.handleUpgrade(request, socket, head, (webSocket) =>
        this.#open(webSocket, query, processor),
      );
    } catch (error) {
      const found = fromRpcError(error);
      if (found.httpStatus >= 500)
        this.logger.warn(`WebSocket refused: ${found.message}`, { cause: found.cause?.stack });
      refuse(socket, found);
    }
  }

  async close() {
    clearInterval(this.#pings);
    for (const socket of this.#sockets.keys()) socket.close(GOING_AWAY, 'STOPPING');
    await Promise.allSettled([...this.#sockets.values()].map((stream) => stream.close()));
  }

  /** Ends connections whose clients do not answer the closing handshake. */
  terminate() {
    for (const socket of this.#server.clients) socket.terminate();
  }

  async #check(request) {
    const url = new URL(request.url, 'http://localhost');
    if (url.pathname !== STREAM_PATH) {
      throw new ServiceError(404, 'NO_SUCH_ENDPOINT', `There is no WebSocket at ${url.pathname}.`);
    }
    this.#checkOrigin(request);
    const token = bearerToken(request) ?? url.searchParams.get('access_token');
    if (this.config.tokens.length > 0 && !this.isKnownToken(token)) {
      throw new ServiceError(401, 'UNAUTHENTICATED', 'Send a valid token: Authorization: Bearer <token>.');
    }
    const query = validated(streamQuery, readStreamQuery(url.searchParams));
    if (query.positions && (query.group || query.topics.length > 1)) {
      throw new ServiceError(
        400,
        'INVALID_REQUEST',
        'Invalid request: positions need one topic and no group.',
      );
    }
    if (this.size >= this.config.socketsMax) {
      throw new ServiceError(429, 'TOO_MANY_SOCKETS', `${this.size} sockets are open.`, { retriable: true });
    }
    const processor = openProcessor(query.format, query.avroSchema);
    await Promise.all(query.topics.map((topic) => this.client.describeTopic(topic)));
    return { query, processor };
  }

  /** A web page may only connect if it comes from this host or from an allowed origin. */
  #checkOrigin({ headers: { origin, host } }) {
    if (origin === undefined || this.config.allowedOrigins.includes(origin)) return;
    if (URL.canParse(origin) && new URL(origin).host === host) return;
    throw new ServiceError(403, 'FORBIDDEN_ORIGIN', 'The origin of this page is not in ALLOWED_ORIGINS.');
  }

  #open(socket, query, processor) {
    const { client, hub, logger, defaults } = this;
    const writer = new SocketWriter(socket, this.config.socketBufferBytes);
    const parts = { writer, query, processor, client, logger };
    const stream = query.group
      ? new GroupStream({ ...parts, defaults })
      : new FanoutStream({ ...parts, hub, limiter: this.#limiter });
    this.#sockets.set(socket, stream);
    this.metrics?.sockets.set(this.size);
    socket.isAlive = true;
    socket.on('pong', () => {
      socket.isAlive = true;
    });
    socket.on('message', (data, isBinary) => {
      socket.isAlive = true;
      this.#receive(stream, writer, data, isBinary);
    });
    socket.on('error', (error) => logger.debug(`socket failed: ${error.message}`));
    socket.on('close', () => this.#closed(socket, stream));
    stream.start().catch((error) => writer.fail(fromRpcError(error)));
  }

  #receive(stream, writer, data, isBinary) {
    try {
      if (isBinary) throw new ServiceError(400, 'INVALID_REQUEST', 'Send text frames with JSON.');
      stream.receive(parseObject(data.toString()));
    } catch (error) {
      writer.fail(fromRpcError(error), 1008);
    }
  }

  #closed(socket, stream) {
    this.#sockets.delete(socket);
    this.metrics?.sockets.set(this.size);
    stream.close().catch((error) => this.logger.warn(`cannot end a stream: ${error.message}`));
  }

  /** A client that was silent for a whole interval, pongs included, is gone. */
  #ping() {
    for (const socket of this.#sockets.keys()) {
      if (!socket.isAlive) {
        socket.terminate();
        continue;
      }
      socket.isAlive = false;
      socket.ping();
    }
  }
}

function parseObject(text) {
  try {
    const found = JSON.parse(text);
    if (found !== null && typeof found === 'object') return found;
  } catch {
    // reported below
  }
  throw new ServiceError(400, 'MALFORMED_JSON', 'The message is not a JSON object.');
}

function refuse(socket, error) {
  const body = JSON.stringify({ error: error.toJSON() });
  const lines = [
    `HTTP/1.1 ${error.httpStatus} ${STATUS_CODES[error.httpStatus] ?? 'Error'}`,
    'Content-Type: application/json',
    `Content-Length: ${Buffer.byteLength(body)}`,
    'Connection: close',
    ...(error.retriable ? [`Retry-After: ${Math.max(1, Math.ceil(error.retryAfterMs / 1_000))}`] : []),
  ];
  socket.end(`${lines.join('\r\n')}\r\n\r\n${body}`);
}
