/* text/gbnf.h - parses the text of a GBNF grammar into trees.
 * Rules are `name ::= alternatives`; the elements are "literals", [classes], names, (groups) and
 * `.`, followed by * + ? {m} {m,} {m,n}; # begins a comment. A rule ends with its line, except
 * inside parentheses and after `|` and `::=`. Every size is limited; errors name the line. */
#ifndef FT_TEXT_GBNF_H
#define FT_TEXT_GBNF_H

#include "base/dict.h"
#include "base/err.h"

#define FT_GBNF_TEXT_MAX   ((size_t)8 << 20)
#define FT_GBNF_NODES_MAX  1000000
#define FT_GBNF_DEPTH_MAX  200
#define FT_GBNF_REPEAT_MAX 100000

typedef enum ft_gkind {
    FT_G_EMPTY,
    FT_G_BYTES,
    FT_G_CLASS,
    FT_G_RULE,
    FT_G_SEQ,
    FT_G_ALT,
    FT_G_REPEAT
} ft_gkind;

typedef struct ft_gnode {
    ft_gkind kind;
    uint32_t first, next; /* children of SEQ, ALT, REPEAT; 0 is none */
    uint32_t at,
        n; /* BYTES: in bytes; CLASS: in ranges, sorted and disjoint; RULE: at is the rule */
    uint32_t min, max; /* REPEAT; max UINT32_MAX: unbounded */
} ft_gnode;

typedef struct ft_grange {
    uint32_t lo, hi;
} ft_grange;

typedef struct ft_grule {
    ft_str name;   /* in the text */
    uint32_t body; /* node, 0 while undefined */
    uint32_t line;
} ft_grule;

typedef struct ft_gbnf {
    char *text;
    ft_gnode *node; /* node[0] is not used */
    size_t n_node, cap_node;
    ft_grange *range;
    size_t n_range, cap_range;
    char *byte;
    size_t n_byte, cap_byte;
    ft_grule *rule;
    size_t n_rule, cap_rule;
    ft_dict names;
    uint32_t root;
} ft_gbnf;

/* root: the name of the start rule, usually "root". */
ft_status ft_gbnf_init(ft_gbnf *g, ft_str text, const char *root, ft_err *err);
void ft_gbnf_release(ft_gbnf *g);

/* Sorts n character ranges and merges those that overlap or adjoin. Returns how many remain. */
size_t ft_granges_merge(ft_grange *r, size_t n);

#endif
