// Validates bodies and queries with joi. All errors of a request are reported together.
import { ServiceError } from '../../utils/rpcErrors.js';

const OPTIONS = { abortEarly: false, errors: { wrap: { label: false } } };
const DETAILS_MAX = 20;

/** The validated value, with defaults. Throws a ServiceError with status 400. */
export function validated(schema, value) {
  return check(schema.prefs(OPTIONS), value);
}

function check(schema, value) {
  const result = schema.validate(value);
  if (!result.error) return result.value;
  const details = result.error.details.slice(0, DETAILS_MAX).map((one) => one.message);
  throw new ServiceError(400, 'INVALID_REQUEST', `Invalid request: ${details.join('; ')}.`, { details });
}

export function validateBody(schema) {
  const prepared = schema.prefs(OPTIONS); // once: joi would merge the options again for every request
  return (request, response, next) => {
    request.body = check(prepared, request.body ?? {});
    next();
  };
}

/** Refuses bodies that are not declared as JSON: a web page of another origin cannot send such a request unasked. */
export function requireJson(request, response, next) {
  const hasBody =
    request.headers['transfer-encoding'] !== undefined || Number(request.headers['content-length']) > 0;
  if (!hasBody || request.is('application/json')) return next();
  return next(
    new ServiceError(415, 'UNSUPPORTED_MEDIA_TYPE', 'Send JSON with Content-Type: application/json.'),
  );
}
