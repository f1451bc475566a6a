#!/usr/bin/env bash
# Publishes a few messages with nothing but curl, and reads them back. Needs a running broker: `penstock start`.
# PENSTOCK_HTTP is the HOST:PORT of the HTTP listener, 127.0.0.1:9080 if not set.
set -euo pipefail
api="http://${PENSTOCK_HTTP:-127.0.0.1:9080}/api/v1"
topic="${1:-example-events}"

ask() {
    curl --silent --show-error --fail-with-body "$@"
}

ask "$api/messages" -H 'Content-Type: application/json' \
    -d "{\"topic\": \"$topic\", \"key\": \"user-123\", \"value\": {\"action\": \"login\"}, \"headers\": {\"source\": \"web-app\"}}"
ask "$api/messages/batch" -H 'Content-Type: application/json' \
    -d "{\"topic\": \"$topic\", \"messages\": [{\"value\": \"one\"}, {\"value\": \"two\"}]}"
ask "$api/topics/$topic/partitions/0/messages?offset=earliest&max=10"
