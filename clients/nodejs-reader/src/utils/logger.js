// Log lines of the service: JSON for machines, text for people.
import winston from 'winston';

const { combine, errors, json, printf, timestamp } = winston.format;

const text = printf(({ timestamp: at, level, message, stack, ...fields }) => {
  const rest = Object.keys(fields).length > 0 ? ` ${JSON.stringify(fields)}` : '';
  return `${at} ${level} ${message}${rest}${stack ? `\n${stack}` : ''}`;
});

export function createLogger({ level = 'info', format = 'text' } = {}) {
  return winston.createLogger({
    level,
    format: combine(errors({ stack: true }), timestamp(), format === 'json' ? json() : text),
    transports: [new winston.transports.Console({ stderrLevels: ['error', 'warn'] })],
  });
}

export const silentLogger = winston.createLogger({ silent: true });
