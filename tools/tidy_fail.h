/* SPDX-License-Identifier: Apache-2.0
 *
 * tidy_fail.h: included before every file by tools/tidy.py and nobody else. Tells clang's analyzer, which sees one file at a time,
 * that gr_fail returns the code it is given; otherwise it follows paths where a failure counts as success. */
#include "base/err.h"
#define gr_fail(err, code, ...) ((void)(gr_fail)((err), (code), __VA_ARGS__), (code))
