// Messages as clients of this service see them, in JSON.
import { decodeValue } from '../processors/processor.js';

const frames = new WeakMap();

/** Key and headers as text, the value by its processor. A value that cannot be read is in `raw`, with the error. */
export function viewMessage(message, processor) {
  const { topic, partition, offset, timestamp } = message;
  const view = {
    topic,
    partition,
    offset,
    timestamp,
    key: viewKey(message.key),
    headers: viewHeaders(message),
  };
  try {
    return { ...view, value: decodeValue(processor, message) };
  } catch (error) {
    return { ...view, value: null, raw: message.value.toString('base64'), error: error.message };
  }
}

/** The frame of a message for WebSockets, encoded once for all of them. */
export function messageFrame(message, processor) {
  const known = frames.get(message) ?? new Map();
  if (!known.has(processor.name)) {
    const view = { type: 'message', ...viewMessage(message, processor) };
    known.set(processor.name, Buffer.from(JSON.stringify(view, jsonValue)));
    frames.set(message, known);
  }
  return known.get(processor.name);
}

function jsonValue(key, value) {
  return typeof value === 'bigint' ? value.toString() : value;
}

function viewKey(key) {
  return key === null ? null : key.toString();
}

/** Header values as text; a name that repeats has a list. */
function viewHeaders({ rawHeaders }) {
  const found = new Map();
  for (const { name, value } of rawHeaders) {
    const text = value == null ? null : value.toString();
    found.set(name, found.has(name) ? [found.get(name), text].flat() : text);
  }
  return Object.fromEntries(found);
}
