// What happens to a message whose handling fails: retries with back-off, then the dead letter topic.
import { setTimeout as sleep } from 'node:timers/promises';

const BACKOFF_MS_MAX = 10_000;

export class ErrorHandler {
  constructor({ retries, backoffMs, deadLetters, logger, metrics }) {
    Object.assign(this, { retries, backoffMs, deadLetters, logger, metrics });
  }

  /**
   * Runs the work for a message. Resolves once the work is done or the message is a dead letter; rejects if it can be
   * neither, so that the message is delivered again.
   */
  async guard(message, work) {
    for (let attempt = 0; ; attempt += 1) {
      try {
        await work();
        return;
      } catch (error) {
        const { topic, partition, offset } = message;
        if (error.isPermanent || attempt >= this.retries) {
          await this.#giveUp(error, message, attempt + 1);
          return;
        }
        this.metrics?.retried.inc({ topic });
        this.logger.warn(`message failed, retrying: ${error.message}`, { topic, partition, offset, attempt });
        await sleep(Math.min(this.backoffMs * 2 ** attempt, BACKOFF_MS_MAX));
      }
    }
  }

  async #giveUp(error, message, deliveries) {
    const { topic, partition, offset } = message;
    if (!this.deadLetters) throw error;
    await this.deadLetters.write(message, error, deliveries);
    this.metrics?.deadLetters.inc({ topic });
    this.logger.error(`message is a dead letter: ${error.message}`, { topic, partition, offset });
  }
}
