// A WebSocket that receives every message of its topics, at its own pace, without a group.
import { FanoutReader } from '../../consumer/fanout.js';
import { messageFrame } from '../../handlers/view.js';
import { ServiceError } from '../../utils/rpcErrors.js';
import { readPositions } from '../schemas.js';

export class FanoutStream {
  #readers = [];
  #feeds = [];
  #isClosed = false;

  constructor({ writer, query, processor, client, hub, limiter }) {
    Object.assign(this, { writer, query, processor, client, hub, limiter });
  }

  async start() {
    for (const topic of this.query.topics) {
      const feed = await this.hub.acquire(topic);
      if (this.#isClosed) {
        this.hub.release(feed);
        return;
      }
      this.#feeds.push(feed);
    }
    for (const feed of this.#feeds) {
      const reader = new FanoutReader({
        feed,
        client: this.client,
        limiter: this.limiter,
        sink: this.#sink(),
        positions: readPositions(this.query.positions),
        fromBeginning: this.query.from === 'earliest',
      });
      this.#readers.push(reader);
      await reader.start();
    }
    this.writer.write({ type: 'ready', topics: this.query.topics });
  }

  receive() {
    throw new ServiceError(
      400,
      'INVALID_REQUEST',
      'This stream takes no messages: acknowledgements need a group.',
    );
  }

  async close() {
    this.#isClosed = true;
    for (const reader of this.#readers) reader.close();
    for (const feed of this.#feeds) this.hub.release(feed);
  }

  #sink() {
    const { writer, processor } = this;
    return {
      get isFull() {
        return writer.isFull;
      },
      send: (message) => writer.write(messageFrame(message, processor)),
      drained: () => writer.drained(),
      gap: (topic, partition, from, to) => writer.write({ type: 'gap', topic, partition, from, to }),
      fail: (error) => writer.fail(error),
    };
  }
}
