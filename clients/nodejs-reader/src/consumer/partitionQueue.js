// The messages of one assigned partition that wait for their handler, which takes them one after another.
import { setTimeout as sleep } from 'node:timers/promises';

const BACKOFF_MS = 100;
const BACKOFF_MS_MAX = 5_000;

export class PartitionQueue {
  #messages = [];
  #running = null;
  #dropped = new AbortController();
  #isPaused = false;

  /** `deliver` handles one message; `onFailure` hears why it failed; `setPaused` tells the service to wait. */
  constructor({ topic, partition, sizeMax, deliver, onFailure, setPaused }) {
    Object.assign(this, { topic, partition, sizeMax, deliver, onFailure, setPaused });
    this.seekId = null;
  }

  get size() {
    return this.#messages.length;
  }

  get isDropped() {
    return this.#dropped.signal.aborted;
  }

  push(messages) {
    if (this.isDropped || this.seekId !== null) return; // from before the seek
    for (const one of messages) this.#messages.push(one);
    if (!this.#isPaused && this.size > this.sizeMax) this.#pause(true);
    this.#running ??= this.#run();
  }

  /** Forgets what waits. The message in progress may end. */
  clear() {
    this.#messages = [];
    if (this.#isPaused) this.#pause(false);
  }

  /** The partition is no longer ours: nothing more is handled. */
  drop() {
    this.#isPaused = false;
    this.#messages = [];
    this.#dropped.abort();
  }

  /** Resolves once no message is in progress. */
  async idle() {
    await this.#running;
  }

  async #run() {
    while (this.#messages.length > 0) {
      await this.#handle(this.#messages.shift());
      if (this.#isPaused && this.size <= this.sizeMax / 2) this.#pause(false);
    }
    this.#running = null;
  }

  /** Tries again until the handler succeeds: a message is never skipped. */
  async #handle(message) {
    for (let backoffMs = BACKOFF_MS; !this.isDropped; backoffMs = Math.min(backoffMs * 2, BACKOFF_MS_MAX)) {
      try {
        await this.deliver(this, message);
        return;
      } catch (error) {
        if (this.isDropped) return;
        this.onFailure(error, message);
        await sleep(backoffMs, undefined, { signal: this.#dropped.signal }).catch(() => {});
      }
    }
  }

  #pause(isPaused) {
    this.#isPaused = isPaused;
    this.setPaused(this, isPaused);
  }
}
