// Handles the messages of the configured topics: decodes the value, calls the application, commits.
import { pathToFileURL } from 'node:url';

import { decodeValue } from '../processors/processor.js';

/** The listener for a consumer's 'message' events. */
export function createMessageHandler({ consumer, processor, process, errors, metrics, commitsEach }) {
  return async (message) => {
    await errors.guard(message, async () => {
      await process({ ...message, value: decodeValue(processor, message) });
    });
    metrics?.handled.inc({ topic: message.topic });
    if (commitsEach) await consumer.commitOffset(message.offset);
  };
}

/** The application: the default export of a module, `async (message) => …`. Without one, messages are logged. */
export async function loadProcess(path, logger) {
  if (!path) {
    return async ({ topic, partition, offset }) => logger.debug('message', { topic, partition, offset });
  }
  const module = await import(pathToFileURL(path));
  if (typeof module.default !== 'function') {
    throw new Error(`MESSAGE_HANDLER ${path} has no function as its default export.`);
  }
  return module.default;
}
