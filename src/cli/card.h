/* SPDX-License-Identifier: MIT */
/* src/cli/card.h -- what can be said of a model without computing with it. */
#ifndef QN_CLI_CARD_H
#define QN_CLI_CARD_H

#include "cli/source.h"
#include <jansson.h>

typedef struct cli_card {
    qn_model_facts facts;
    bool readable; /* the facts are the file's */
    bool runs;
    char reason[512]; /* why not */
} cli_card;

/* Reads the header of the file at `path`; problem: what a store knows to be wrong with it, or NULL. The open file comes
 * back in *file where that is not NULL and the file opened. */
void cli_card_read(const char *path, const char *problem, cli_card *card, qn_gguf **file);
/* "4.58 GiB"; 32 bytes do. */
const char *cli_print_bytes(char *buf, size_t size, uint64_t bytes);
/* "7.62 B"; 32 bytes do. */
const char *cli_print_count(char *buf, size_t size, uint64_t n);
/* A JSON object for both; model NULL: a file that no store knows. NULL when memory runs out. */
json_t *cli_card_json(const cli_card *card, const char *path, const qn_store_model *model);

#endif
