/* base/utf8.h - strict UTF-8: surrogates, overlong forms and values above U+10FFFF are invalid. */
#ifndef FT_BASE_UTF8_H
#define FT_BASE_UTF8_H

#include "base/buf.h"
#include "base/str.h"

#define FT_UTF8_BAD 0xFFFFFFFFu

/* Decodes the character at p (n > 0 bytes available). *len is its length in bytes. For an invalid
 * or cut-off sequence the result is FT_UTF8_BAD and *len is 1. */
uint32_t ft_utf8_decode(const char *p, size_t n, int *len);
/* Writes c (a valid code point) and returns the number of bytes, 1..4. */
int ft_utf8_encode(uint32_t c, char out[4]);
/* true when all of s is valid */
bool ft_utf8_valid(ft_str s);
/* Appends p[0..n), with U+FFFD for every byte that is not part of a valid character. */
void ft_utf8_repair(ft_buf *out, const char *p, size_t n);
/* Number of bytes at the end of s that begin a character which is not complete yet: 0..3. */
size_t ft_utf8_partial(ft_str s);

#endif
