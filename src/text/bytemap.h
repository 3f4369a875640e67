/* text/bytemap.h - the alphabet of byte-level vocabularies: every byte as one printable character.
 * Printable Latin-1 bytes map to themselves, the other 68 to code points from U+0100 on. */
#ifndef FT_TEXT_BYTEMAP_H
#define FT_TEXT_BYTEMAP_H

#include <stdint.h>

#define FT_BYTEMAP_CHARS 0x144 /* all code points that represent a byte are below this */

uint32_t ft_bytemap_char(uint8_t byte);
int ft_bytemap_byte(uint32_t c); /* -1: c does not represent a byte */

#endif
