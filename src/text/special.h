/* text/special.h - finds the special tokens of a text, before any other step of tokenization.
 * Definition: the longest token text first, and each from left to right. */
#ifndef FT_TEXT_SPECIAL_H
#define FT_TEXT_SPECIAL_H

#include "base/str.h"

typedef struct ft_special_token {
    ft_str text; /* borrowed, not empty */
    int32_t id;
    bool user; /* user-defined: matched always; else only when special tokens are parsed */
} ft_special_token;

typedef struct ft_special {
    ft_special_token *token; /* sorted by text */
    size_t n;
    size_t longest[256]; /* bytes of the longest token with this first byte */
    uint32_t first[257]; /* tokens whose first byte is b: [first[b], first[b + 1]) */
} ft_special;

typedef struct ft_special_match {
    size_t at, len;
    int32_t id;
} ft_special_match;

/* Takes ownership of the list (freed with ft_free) and sorts it. */
void ft_special_init(ft_special *s, ft_special_token *take, size_t n);
void ft_special_release(ft_special *s);

/* Iterates over the matches of a text from left to right. Holds the matches of a range where tokens
 * overlap. */
typedef struct ft_special_cut {
    const ft_special *s;
    ft_str text;
    bool parse; /* control and unknown tokens too */
    size_t pos; /* the text before this was processed */
    ft_special_match *ready;
    size_t n_ready, at_ready, cap_ready;
} ft_special_cut;

void ft_special_cut_init(ft_special_cut *c, const ft_special *s, ft_str text, bool parse);
void ft_special_cut_release(ft_special_cut *c);
/* The next match, in the order of the text; false when there is none. */
bool ft_special_cut_next(ft_special_cut *c, ft_special_match *m);

#endif
