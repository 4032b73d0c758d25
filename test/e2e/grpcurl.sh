#!/usr/bin/env bash
# The protocol by hand: grpcurl subscribes, asks for nothing at all, and is refused by
# the name of the rule. It knows the protocol from the node itself (--reflection).
set -euo pipefail
cd "$(dirname "$0")/../.."

dir=$(mktemp -d)
trap 'kill "${node:-}" 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$dir"' EXIT

go build -o "$dir/sluice-node" ./cmd/sluice-node
go build -modfile=tools/grpcurl/go.mod -o "$dir/grpcurl" github.com/fullstorydev/grpcurl/cmd/grpcurl
cat >"$dir/a.yaml" <<'YAML'
version: 1
node: {name: a}
listen: {grpc: {address: "127.0.0.1:0"}}
cluster: {bind: "127.0.0.1:0"}
stages:
  numbers: {source: generate, with: {rate: 100}}
YAML
"$dir/sluice-node" run -c "$dir/a.yaml" --reflection 2>"$dir/log" &
node=$!
for _ in $(seq 100); do
  address=$(sed -n 's/.*node started.*grpc=\([0-9.:]*\).*/\1/p' "$dir/log")
  [[ -n $address ]] && break
  sleep 0.1
done

subscribe() { "$dir/grpcurl" -plaintext -d @ "$address" sluice.v1.SubscriptionService/Subscribe 2>&1 || true; }

open='{"open": {"protocol": 1, "outlet": "numbers", "subscriber": {"node": "hand", "stage": "grpcurl"},
  "incarnation": 1, "session": 1, "attempt": 1, "event_type": "string", "codec": "text", "granted": 3, "max_frame_bytes": 4194304}}'

echo "--- Ask(0)"
answer=$(subscribe <<<"$open"' {"ask": {"n": 0}}')
echo "$answer"
grep -q 'ask-not-positive' <<<"$answer"

echo "--- an outlet that is not there"
answer=$(subscribe <<<"${open/numbers/letters}")
echo "$answer"
grep -q 'unknown-outlet' <<<"$answer"
