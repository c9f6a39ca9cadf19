/* SPDX-License-Identifier: MIT */
/* src/text/tokenizer/vocab_write.c -- where a trained vocabulary goes: to a file being written, to a tokenizer; and a
 * trainer's files. */
#include "base/file.h"
#include "text/train/bpe_train.h"
#include "format/gguf_writer.h"

#define KEY "tokenizer.ggml."

void qn_vocab_write(const qn_vocab *vocab, qn_gguf_writer *w)
{
    const uint64_t n = (uint64_t)vocab->n_tokens;
    qn_gguf_write_str(w, KEY "model", "llama");
    qn_gguf_write_strs(w, KEY "tokens", vocab->pieces, n);
    qn_gguf_write_array(w, KEY "scores", QN_GGUF_f32, vocab->scores, n);
    qn_gguf_write_array(w, KEY "token_type", QN_GGUF_i32, vocab->kinds, n);
    qn_gguf_write_u32(w, KEY "unknown_token_id", (uint32_t)vocab->unk);
    qn_gguf_write_u32(w, KEY "bos_token_id", (uint32_t)vocab->bos);
    qn_gguf_write_u32(w, KEY "eos_token_id", (uint32_t)vocab->eos);
    qn_gguf_write_bool(w, KEY "add_bos_token", true);
    qn_gguf_write_bool(w, KEY "add_eos_token", false);
    qn_gguf_write_bool(w, KEY "add_space_prefix", vocab->add_space_prefix);
}

qn_status qn_vocab_tokenizer(const qn_vocab *vocab, qn_tokenizer **out, qn_error *err)
{
    qn_gguf_writer *w = NULL;
    qn_gguf *file = NULL;
    qn_str header = {0};
    QN_TRY(qn__gguf_writer_create_memory(&w, err));
    qn_vocab_write(vocab, w);
    qn_status status = qn__gguf_writer_take_header(w, &header, err);
    if (status == QN_OK) status = qn_gguf_open_memory(header.data, header.len, NULL, &file, err);
    if (status == QN_OK) status = qn_tokenizer_create(file, out, err);
    qn_gguf_close(file);
    qn__str_deinit(&header);
    return status;
}

qn_status qn_bpe_trainer_add_file(qn_bpe_trainer *trainer, const char *path, qn_error *err)
{
    qn_map map;
    QN_TRY(qn__map_open(path, &map, err));
    const qn_status status = qn_bpe_trainer_add(trainer, (const char *)map.data, map.size, err);
    qn__map_close(&map);
    return status;
}
