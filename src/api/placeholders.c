/* api/placeholders.c - users may type the texts that stand for images. In messages they are
 * replaced by aliases that no one can guess, so that after rendering every placeholder is the
 * template's; the tokenizer reads an alias as the text that was typed. */
#define _GNU_SOURCE
#include "api/images.h"

#include "base/buf.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

enum { MAX_TYPED = 64 << 20 };

void ft_placeholders_init(ft_placeholders *p, ft_vocab *v, const int32_t *id, int n)
{
    unsigned char nonce[16];
    char hex[2 * sizeof nonce + 1];
    if (getrandom(nonce, sizeof nonce, 0) != (ssize_t)sizeof nonce) abort();
    for (size_t i = 0; i < sizeof nonce; i++) snprintf(hex + 2 * i, 3, "%02x", nonce[i]);
    p->v = v;
    p->n = n;
    for (int i = 0; i < n; i++) {
        p->id[i] = id[i];
        snprintf(p->alias[i], sizeof p->alias[i], "placeholder%s%c", hex, 'a' + i);
        ft_vocab_add_alias(v, p->alias[i], id[i]);
    }
}

/* The first of the texts that occurs, of several at one place the longest; NULL: none does. */
static const char *first_in(const ft_placeholders *p, const char *text, bool aliases, int *which)
{
    const char *best = NULL;
    size_t longest = 0;
    for (int i = 0; i < p->n; i++) {
        const ft_str name = aliases ? ft_str_of(p->alias[i]) : ft_vocab_text(p->v, p->id[i]);
        const char *at = memmem(text, strlen(text), name.p, name.n);
        if (!at || (best && (at > best || (at == best && name.n <= longest)))) continue;
        best = at;
        longest = name.n;
        *which = i;
    }
    return best;
}

/* A copy with every placeholder as its alias, or the other way round; NULL: there is none. */
static char *replaced(const ft_placeholders *p, const char *text, bool back)
{
    int i;
    const char *at = first_in(p, text, back, &i);
    if (!at) return NULL;
    ft_buf b;
    ft_buf_init(&b, MAX_TYPED);
    for (; at; at = first_in(p, text, back, &i)) {
        const ft_str name = ft_vocab_text(p->v, p->id[i]), alias = ft_str_of(p->alias[i]);
        ft_buf_put(&b, text, (size_t)(at - text));
        ft_buf_put_str(&b, back ? name : alias);
        text = at + (back ? alias.n : name.n);
    }
    ft_buf_puts(&b, text);
    char *out = b.full ? NULL : ft_buf_take(&b);
    ft_buf_release(&b);
    return out;
}

/* Object keys stay: they are names of fields. */
void ft_placeholders_hide(const ft_placeholders *p, json_t *v)
{
    const char *key;
    json_t *one;
    size_t i;
    if (json_is_string(v)) {
        char *text = replaced(p, json_string_value(v), false);
        if (text) json_string_set_nocheck(v, text);
        ft_free(text);
    } else if (json_is_array(v)) {
        json_array_foreach(v, i, one) ft_placeholders_hide(p, one);
    } else if (json_is_object(v)) {
        json_object_foreach(v, key, one) ft_placeholders_hide(p, one);
    }
}

char *ft_placeholders_show(const ft_placeholders *p, const char *text)
{
    char *out = replaced(p, text, true);
    return out ? out : ft_strdup(text);
}
