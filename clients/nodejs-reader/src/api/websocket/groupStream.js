// A WebSocket as a member of a group: offsets are committed only after the socket, or the client, has the message.
import { GroupConsumer } from '../../consumer/group.js';
import { messageFrame } from '../../handlers/view.js';
import { ServiceError } from '../../utils/rpcErrors.js';

export const UNACKED_MAX = 1_000;

export class GroupStream {
  #unacked = new Map();
  #room = [];

  constructor({ writer, query, processor, client, logger, defaults }) {
    Object.assign(this, { writer, processor, isAckedByClient: query.ack === 'client' });
    this.consumer = new GroupConsumer({
      ...defaults,
      client,
      logger,
      groupId: query.group,
      topics: query.topics,
      fromBeginning: query.from === 'earliest',
      autoCommit: false,
    });
    this.consumer.on('message', (message) => this.#send(message));
    this.consumer.on('assigned', (partitions) => writer.write({ type: 'assigned', partitions }));
    this.consumer.on('revoked', (partitions) => this.#revoked(partitions));
    this.consumer.on('disconnected', () => this.#revoked([...this.#unacked.values()]));
    this.consumer.on('error', (error) => writer.fail(error));
  }

  async start() {
    this.consumer.start();
  }

  /** A message of the client: {"type": "ack", "topic", "partition", "offset"}, for this message and all before it. */
  receive({ type, topic, partition, offset }) {
    const place = this.#unacked.get(`${topic}:${partition}`);
    if (type !== 'ack' || !this.isAckedByClient || !Number.isSafeInteger(offset)) {
      throw new ServiceError(
        400,
        'INVALID_REQUEST',
        'Send {"type": "ack", "topic", "partition", "offset"}, with ack=client.',
      );
    }
    if (!place) return; // revoked meanwhile: the message is delivered elsewhere
    const isTaken = (one) => one <= offset;
    const taken = place.offsets.filter(isTaken);
    if (taken.length === 0) return;
    place.offsets = place.offsets.slice(taken.length);
    this.consumer.markDone({ topic, partition, offset: taken.at(-1) });
    this.#wake();
  }

  async close() {
    this.#wake();
    await this.consumer.stop();
  }

  async #send(message) {
    const { topic, partition, offset } = message;
    if (this.isAckedByClient) {
      const name = `${topic}:${partition}`;
      if (!this.#unacked.has(name)) this.#unacked.set(name, { topic, partition, offsets: [] });
      const place = this.#unacked.get(name);
      while (place.offsets.length >= UNACKED_MAX && this.writer.isOpen && this.#unacked.get(name) === place) {
        await new Promise((resolve) => this.#room.push(resolve));
      }
      place.offsets.push(offset);
    }
    const isTaken = await this.writer.write(messageFrame(message, this.processor));
    if (!isTaken) throw new Error('the socket is closed');
    if (!this.isAckedByClient) this.consumer.markDone(message);
  }

  #revoked(partitions) {
    for (const { topic, partition } of partitions) this.#unacked.delete(`${topic}:${partition}`);
    this.#wake();
    this.writer.write({
      type: 'revoked',
      partitions: partitions.map(({ topic, partition }) => ({ topic, partition })),
    });
  }

  #wake() {
    this.#room.splice(0).forEach((resolve) => resolve());
  }
}
