/* SPDX-License-Identifier: MIT */
/* src/cli/client.h -- a request to a running `quern serve`, for the commands that look at it. */
#ifndef QN_CLI_CLIENT_H
#define QN_CLI_CLIENT_H

#include "cli/cli.h"
#include <jansson.h>

typedef struct cli_server {
    const char *host, *key, *cacert;
} cli_server;

/* Rows for a command's option table. */
/* clang-format off */
#define CLI_SERVER_OPTIONS(s) \
    {"host", 0, CLI_STRING, &(s).host, "ADDRESS", \
        "the server, such as 127.0.0.1:8080 or https://example.org (default: $QUERN_HOST, 127.0.0.1:8080)", \
        0, 0, NULL}, \
    {"api-key", 0, CLI_STRING, &(s).key, "KEY", "the server's key (default: $QUERN_API_KEY)", 0, 0, NULL}, \
    {"cacert", 0, CLI_STRING, &(s).cacert, "FILE", "certificates to trust instead of the system's", 0, 0, NULL}
/* clang-format on */

/* Sends a body (taken; NULL: GET) and receives the reply of a status below 300. CLI_OK, or the status of a message: no
 * server answers, or what it says is wrong. *reply is decref'd by the caller. */
int cli_request(const cli_server *s, const char *path, json_t *body, json_t **reply);

#endif
