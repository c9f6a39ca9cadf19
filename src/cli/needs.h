/* SPDX-License-Identifier: MIT */
/* src/cli/needs.h -- what a chat template was found to want, for people and for programs. */
#ifndef QN_CLI_NEEDS_H
#define QN_CLI_NEEDS_H

#include "cli/cli.h"
#include <jansson.h>
#include <quern/chat.h>

/* On standard output, a line each. CLI_OK, or the status of a failed output. */
int cli_print_needs(const qn_chat_template *t);
/* The members of qn_chat_needs, by their names; NULL when memory runs out. */
json_t *cli_needs_json(const qn_chat_template *t);

#endif
