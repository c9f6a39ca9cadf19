#!/bin/sh
# SPDX-License-Identifier: MIT
# quern serve with the official clients of PyPI, in a virtual environment beside the build; skipped where PyPI can't be reached.
. "$1/tests/e2e/lib/common.sh"
clients="openai==3.54.0 anthropic==2.12.0 ollama==0.6.3 prometheus-client==0.26.0"
python3 -c 'import venv, ensurepip' 2>/dev/null || { echo "skipped: no python3 with venv"; exit 77; }
"$quern" serve "$source/models/chat.gguf" --port 0 --parallel 129 2>"$work/err"
grep -q "libmicrohttpd" "$work/err" && { echo "skipped: built without libmicrohttpd"; exit 77; }
venv=${QN_CLIENTS_VENV:-$build/clients}
if [ "$(cat "$venv/ready" 2>/dev/null)" != "$clients" ]; then
    # shellcheck disable=SC2086
    { python3 -m venv "$venv" && timeout 120 "$venv/bin/pip" install -q --disable-pip-version-check --retries 1 --timeout 10 $clients; } >"$work/out" 2>&1 ||
        { echo "skipped: the clients cannot be installed: $(tail -n 1 "$work/out")"; exit 77; }
    echo "$clients" >"$venv/ready"
fi
PYTHONDONTWRITEBYTECODE=1 "$venv/bin/python" "$source/tests/e2e/serve/clients.py" "$quern" "$source" >"$work/out" 2>&1 || { bad "clients:"; tail -n 60 "$work/out"; }
finish
