/* SPDX-License-Identifier: Apache-2.0
 *
 * tokenizer_files.h: reads a tokenizer folder into its two parts. */
#ifndef GR_MODEL_TOKENIZER_FILES_H
#define GR_MODEL_TOKENIZER_FILES_H

#include "model/added_tokens.h"
#include "model/bpe.h"

/* Folder with vocab.json and merges.txt, or with tokenizer.json alone. Added tokens as tokenizer.h says, sorted.
 * On failure nothing is left behind; on success the caller frees both. */
enum gr_status gr_tokenizer_read(const char *dir, struct gr_bpe **bpe, struct gr_added_tokens *added,
                                 struct gr_err *err);

#endif
