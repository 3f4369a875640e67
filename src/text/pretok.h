/* text/pretok.h - splits text into the pieces that byte-level BPE merges. Uses PCRE2.
 * A pattern is compiled once and shared by all threads; each thread has its own ft_pretok_work. */
#ifndef FT_TEXT_PRETOK_H
#define FT_TEXT_PRETOK_H

#include "base/err.h"
#include "base/str.h"

typedef struct ft_pretok ft_pretok;
typedef struct ft_pretok_work ft_pretok_work;

/* name: "qwen2" or "qwen35". */
ft_status ft_pretok_open(ft_pretok **out, ft_str name, ft_err *err);
void ft_pretok_free(ft_pretok *p);
ft_pretok_work *ft_pretok_work_new(const ft_pretok *p);
void ft_pretok_work_free(ft_pretok_work *w);

/* Length of the piece at pos < text.n; text is valid UTF-8 and pos the start of a character.
 * 0 when PCRE2 reports an error. */
size_t ft_pretok_next(const ft_pretok *p, ft_pretok_work *w, ft_str text, size_t pos);

/* The two implementations, for the test that compares them: the pattern, and a scanner for pieces
 * that depend on ASCII characters only (it returns 0 for others). */
size_t ft_pretok_pattern(const ft_pretok *p, ft_pretok_work *w, ft_str text, size_t pos);
size_t ft_pretok_ascii(ft_str text, size_t pos);

#endif
