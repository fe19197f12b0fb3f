/* SPDX-License-Identifier: Apache-2.0
 *
 * embedded.h: files of data/ that the program carries; the arrays are written by tools/embed.c at build time. They are not
 * NUL-terminated. */
#ifndef GR_MODEL_EMBEDDED_H
#define GR_MODEL_EMBEDDED_H

#include <stddef.h>

/* data/snapshot_side_files.json */
extern const unsigned char gr_embed_side_files[];
extern const size_t gr_embed_side_files_size;

/* data/openapi.json: docs/openapi.yaml with the places that the server fills in (tools/openapi_json.py) */
extern const unsigned char gr_embed_openapi[];
extern const size_t gr_embed_openapi_size;

/* LICENSE of this program: part of every image */
extern const unsigned char gr_embed_license[];
extern const size_t gr_embed_license_size;

/* package/gr00t/LICENSE-NOTICE.md: whose licence covers what; shown by /info */
extern const unsigned char gr_embed_license_notice[];
extern const size_t gr_embed_license_notice_size;

/* data/demo/tokenizer/ */
extern const unsigned char gr_embed_demo_vocab[];
extern const size_t gr_embed_demo_vocab_size;
extern const unsigned char gr_embed_demo_merges[];
extern const size_t gr_embed_demo_merges_size;
extern const unsigned char gr_embed_demo_added_tokens[];
extern const size_t gr_embed_demo_added_tokens_size;

/* data/demo/: frame.png, state.json, instruction.txt */
extern const unsigned char gr_embed_demo_frame[];
extern const size_t gr_embed_demo_frame_size;
extern const unsigned char gr_embed_demo_state[];
extern const size_t gr_embed_demo_state_size;
extern const unsigned char gr_embed_demo_instruction[];
extern const size_t gr_embed_demo_instruction_size;

/* data/demo/golden/: its image.png is the same picture as frame.png */
extern const unsigned char gr_embed_demo_obs[];
extern const size_t gr_embed_demo_obs_size;
extern const unsigned char gr_embed_demo_expected[];
extern const size_t gr_embed_demo_expected_size;
extern const unsigned char gr_embed_demo_inputs[];
extern const size_t gr_embed_demo_inputs_size;
extern const unsigned char gr_embed_demo_taps[];
extern const size_t gr_embed_demo_taps_size;
/* data/demo/golden/identity.txt: the snapshot that the golden belongs to (policy/golden.h) */
extern const unsigned char gr_embed_demo_identity[];
extern const size_t gr_embed_demo_identity_size;

#endif
