/* text/bytemap.h - the alphabet of byte-level vocabularies: every byte as one printable character.
 * Printable Latin-1 bytes stand for themselves, the other 68 for U+0100 and on. */
#ifndef FT_TEXT_BYTEMAP_H
#define FT_TEXT_BYTEMAP_H

#include <stdint.h>

#define FT_BYTEMAP_CHARS 0x144 /* code points below this stand for a byte, or for none */

uint32_t ft_bytemap_char(uint8_t byte);
int ft_bytemap_byte(uint32_t c); /* -1: c stands for no byte */

#endif
