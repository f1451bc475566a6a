// The section of this service in a `config.yaml` that all parts of the system share, as settings of the environment.
import { readFileSync } from 'node:fs';

import { parse } from 'yaml';

export class ConfigError extends Error {}

/** `{port: 3001, producer_url: …}` in the section → `{PORT: …, PRODUCER_URL: …}`. Without a file: none. */
export function readConfigFile(path, section) {
  if (!path) return {};
  let content;
  try {
    content = parse(readFileSync(path, 'utf8'))?.[section] ?? {};
  } catch (error) {
    throw new ConfigError(`Cannot read CONFIG_FILE ${path}: ${error.message}`);
  }
  if (typeof content !== 'object' || Array.isArray(content)) {
    throw new ConfigError(`${section} in CONFIG_FILE ${path} is not a section with settings.`);
  }
  return Object.fromEntries(
    Object.entries(content).map(([name, value]) => [name.toUpperCase(), String(value ?? '')]),
  );
}
