#!/bin/sh
# SPDX-License-Identifier: MIT
# --metrics: what the library counted, as JSON and as Prometheus reads it. The numbers fit each other and what ran; Prometheus's own
# reader takes the text where it is installed (PyPI's prometheus_client; tests/e2e/serve/clients.py always has it).
. "$1/tests/e2e/lib/common.sh"
command -v python3 >/dev/null || { echo "skipped: no python3"; exit 77; }
model=$source/models/shakespeare.gguf
expect 0 "$quern" run "$model" "O Romeo" -n 12 --temp 0 -t 2 --metrics "$work/m.json"
expect 0 "$quern" run "$model" "O Romeo" -n 12 --temp 0 -t 2 --load populate --metrics "$work/m.prom"
expect 1 "$quern" run "$model" "O Romeo" -n 1 --metrics "$work/no/such/m.json"
PYTHONDONTWRITEBYTECODE=1 python3 "$source/tests/oracle/metrics.py" "$work/m.json" "$work/m.prom" || bad "the figures"
finish
