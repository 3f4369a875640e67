/* text/jinja_value.c - the arena, lists, dicts, and Python's rules of truth, equality and order. */
#include "text/jinja_value.h"

#include "base/mem.h"
#include "base/utf8.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { BLOCK_BYTES = 64 << 10, SMALL_DICT = 8 };

typedef struct ft_jblock {
    struct ft_jblock *next;
    _Alignas(16) char data[];
} ft_jblock;

void ft_j_init(ft_jctx *c, size_t max_bytes, uint64_t steps, ft_err *err)
{
    memset(c, 0, sizeof *c);
    c->max_bytes = max_bytes;
    c->steps = steps;
    c->err = err;
}

void ft_j_release(ft_jctx *c)
{
    for (ft_jblock *b = c->blocks, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    c->blocks = NULL;
    json_decref(c->json);
    c->json = NULL;
}

void ft_j_fail(ft_jctx *c, ft_status st, const char *fmt, ...)
{
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    for (char *p = text; *p; p++)
        if (*p == '\n' || *p == '\r') *p = ' ';
    /* A message truncated inside a character would not be valid UTF-8. */
    text[strlen(text) - ft_utf8_partial(ft_str_of(text))] = 0;
    c->status = ft_fail(c->err, st, "template line %d: %s", c->line, text);
    longjmp(c->escape, 1);
}

void ft_j_step_slow(ft_jctx *c)
{
    ft_j_fail(c, FT_ELIMIT, "the template exceeds the limit of steps");
}

void ft_j_enter(ft_jctx *c)
{
    if (++c->depth > FT_J_MAX_DEPTH)
        ft_j_fail(c, FT_ELIMIT, "nested more than %d levels deep", FT_J_MAX_DEPTH);
}

void ft_j_leave(ft_jctx *c)
{
    c->depth--;
}

static void new_block(ft_jctx *c, size_t n)
{
    const size_t left = c->max_bytes - c->bytes;
    size_t want = FT_MAX((size_t)BLOCK_BYTES, n < (SIZE_MAX >> 2) ? 2 * n : n);
    want = FT_MIN(want, left);
    if (n > want) ft_j_fail(c, FT_ELIMIT, "more than %zu bytes of values", c->max_bytes);
    ft_jblock *b = malloc(sizeof *b + want);
    if (!b) ft_j_fail(c, FT_ENOMEM, "no memory for %zu bytes of values", want);
    b->next = c->blocks;
    c->blocks = b;
    c->bytes += want;
    c->top = b->data;
    c->end = b->data + want;
}

void *ft_j_alloc(ft_jctx *c, size_t n)
{
    const size_t pad = (16 - ((uintptr_t)c->top & 15)) & 15;
    if (!c->top || (size_t)(c->end - c->top) < pad || (size_t)(c->end - c->top) - pad < n)
        new_block(c, n);
    else
        c->top += pad;
    char *p = c->top;
    c->top += n;
    return p;
}

void *ft_j_alloc_n(ft_jctx *c, size_t n, size_t size)
{
    size_t bytes;
    if (!ft_mul_size(n, size, &bytes))
        ft_j_fail(c, FT_ELIMIT, "%zu values are more than fit in memory", n);
    ft_j_step(c, n / 8);
    return ft_j_alloc(c, bytes);
}

/* ---- strings ---- */

ft_jv ft_jv_copy_str(ft_jctx *c, ft_str s)
{
    char *p = ft_j_alloc(c, s.n);
    if (s.n) memcpy(p, s.p, s.n);
    ft_j_step(c, s.n / 32);
    return ft_jv_str(p, s.n);
}

/* When a ends where the free memory begins, b is appended in place: templates build long texts by
 * adding to a variable, and this keeps the time linear. The value a itself does not change. */
ft_jv ft_jv_concat(ft_jctx *c, ft_str a, ft_str b)
{
    size_t n;
    if (!ft_add_size(a.n, b.n, &n) || n > UINT32_MAX)
        ft_j_fail(c, FT_ELIMIT, "a string of more than 4 GiB");
    if (!a.n) return ft_jv_str(b.p, b.n);
    if (!b.n) return ft_jv_str(a.p, a.n);
    if (a.p + a.n == c->top && (size_t)(c->end - c->top) >= b.n) {
        memcpy(c->top, b.p, b.n);
        c->top += b.n;
        ft_j_step(c, b.n / 32);
        return ft_jv_str(a.p, n);
    }
    char *p = ft_j_alloc(c, n);
    memcpy(p, a.p, a.n);
    memcpy(p + a.n, b.p, b.n);
    ft_j_step(c, n / 32);
    return ft_jv_str(p, n);
}

void ft_jsb_put(ft_jctx *c, ft_jsb *b, const char *p, size_t n)
{
    ft_j_step(c, n / 32);
    if (b->cap - b->n < n) {
        if (n > UINT32_MAX - b->n) ft_j_fail(c, FT_ELIMIT, "a string of more than 4 GiB");
        const size_t cap = FT_MAX(b->n + n, FT_MAX((size_t)64, b->n + b->n / 2));
        if (b->p && b->p + b->cap == c->top && (size_t)(c->end - c->top) >= cap - b->cap) {
            c->top += cap - b->cap;
        } else {
            char *q = ft_j_alloc(c, cap);
            if (b->n) memcpy(q, b->p, b->n);
            b->p = q;
        }
        b->cap = cap;
    }
    if (n) memcpy(b->p + b->n, p, n);
    b->n += n;
}

void ft_jsb_puts(ft_jctx *c, ft_jsb *b, const char *z)
{
    ft_jsb_put(c, b, z, strlen(z));
}

void ft_jsb_put_char(ft_jctx *c, ft_jsb *b, uint32_t code)
{
    char u[4];
    if (code >= 0x110000 || (code >= 0xD800 && code < 0xE000)) code = 0xFFFD;
    ft_jsb_put(c, b, u, (size_t)ft_utf8_encode(code, u));
}

ft_jv ft_jsb_value(const ft_jsb *b)
{
    return ft_jv_str(b->p ? b->p : "", b->n);
}

size_t ft_j_utf8_count(ft_str s)
{
    size_t n = 0;
    for (size_t i = 0; i < s.n; i++) n += ((unsigned char)s.p[i] & 0xC0) != 0x80;
    return n;
}

/* ---- lists ---- */

ft_jlist *ft_jlist_new(ft_jctx *c, size_t cap)
{
    ft_jlist *l = ft_j_alloc(c, sizeof *l);
    *l = (ft_jlist){cap ? ft_j_alloc_n(c, cap, sizeof(ft_jv)) : NULL, 0, cap};
    return l;
}

void ft_jlist_put(ft_jctx *c, ft_jlist *l, ft_jv v)
{
    if (l->n == l->cap) {
        const size_t cap = l->cap ? 2 * l->cap : 4;
        ft_jv *p = ft_j_alloc_n(c, cap, sizeof *p);
        if (l->n) memcpy(p, l->v, l->n * sizeof *p);
        l->v = p;
        l->cap = cap;
    }
    l->v[l->n++] = v;
}

ft_jv ft_jv_pair(ft_jctx *c, ft_jv a, ft_jv b)
{
    ft_jlist *l = ft_jlist_new(c, 2);
    ft_jlist_put(c, l, a);
    ft_jlist_put(c, l, b);
    return ft_jv_ref(FT_J_TUPLE, l);
}

/* ---- dicts ---- */

static uint64_t mix_hash(uint64_t h)
{
    h ^= h >> 33;
    h *= 0xff51afd7ed558ccdu;
    return h ^ (h >> 29);
}

static uint64_t hash_value(ft_jctx *c, ft_jv v)
{
    double f;
    uint64_t h = 14695981039346656037u;
    if (ft_jv_number(v, &f)) { /* 1, 1.0 and True are one key */
        f += 0.0;
        memcpy(&h, &f, sizeof h);
        return mix_hash(h);
    }
    switch (v.kind) {
    case FT_J_STR:
        ft_j_step(c, v.n / 16);
        for (uint32_t i = 0; i < v.n; i++) h = (h ^ (unsigned char)v.u.s[i]) * 1099511628211u;
        return mix_hash(h);
    case FT_J_NONE: return mix_hash(h);
    case FT_J_TUPLE:
        ft_j_enter(c);
        for (size_t i = 0; i < v.u.list->n; i++) h = mix_hash(h + hash_value(c, v.u.list->v[i]));
        ft_j_leave(c);
        return h;
    default: ft_j_fail(c, FT_EINVAL, "a value of type %s cannot be a key", ft_jv_type(v));
    }
}

ft_jdict *ft_jdict_new(ft_jctx *c, size_t cap)
{
    ft_jdict *d = ft_j_alloc(c, sizeof *d);
    *d = (ft_jdict){cap ? ft_j_alloc_n(c, cap, sizeof(ft_jpair)) : NULL, 0, cap, NULL, 0};
    return d;
}

static void rehash(ft_jctx *c, ft_jdict *d)
{
    size_t n = 32;
    while (n < d->n * 2 + 2) n *= 2;
    if (n != d->n_slot) d->slot = ft_j_alloc_n(c, n, sizeof *d->slot);
    d->n_slot = n;
    memset(d->slot, 0, n * sizeof *d->slot);
    ft_j_step(c, d->n);
    for (size_t i = 0; i < d->n; i++) {
        size_t at = hash_value(c, d->v[i].key) & (n - 1);
        while (d->slot[at]) at = (at + 1) & (n - 1);
        d->slot[at] = (uint32_t)(i + 1);
    }
}

static ft_jpair *find_pair(ft_jctx *c, const ft_jdict *d, ft_jv key)
{
    if (!d->slot) {
        if (key.kind != FT_J_STR) hash_value(c, key); /* rejects a value that cannot be a key */
        for (size_t i = 0; i < d->n; i++)
            if (ft_jv_equal(c, d->v[i].key, key)) return &d->v[i];
        return NULL;
    }
    for (size_t at = hash_value(c, key) & (d->n_slot - 1); d->slot[at];
         at = (at + 1) & (d->n_slot - 1)) {
        ft_j_step(c, 1);
        ft_jpair *p = &d->v[d->slot[at] - 1];
        if (ft_jv_equal(c, p->key, key)) return p;
    }
    return NULL;
}

ft_jv *ft_jdict_find(ft_jctx *c, const ft_jdict *d, ft_jv key)
{
    ft_jpair *p = find_pair(c, d, key);
    return p ? &p->value : NULL;
}

ft_jv *ft_jdict_find_z(ft_jctx *c, const ft_jdict *d, const char *key)
{
    return ft_jdict_find(c, d, ft_jv_z(key));
}

void ft_jdict_put(ft_jctx *c, ft_jdict *d, ft_jv key, ft_jv value)
{
    ft_jpair *p = find_pair(c, d, key);
    if (p) {
        p->value = value;
        return;
    }
    if (d->n == d->cap) {
        const size_t cap = d->cap ? 2 * d->cap : 4;
        p = ft_j_alloc_n(c, cap, sizeof *p);
        if (d->n) memcpy(p, d->v, d->n * sizeof *p);
        d->v = p;
        d->cap = cap;
    }
    d->v[d->n++] = (ft_jpair){key, value};
    if (d->n <= SMALL_DICT) return;
    if (d->n * 2 > d->n_slot) {
        rehash(c, d);
        return;
    }
    size_t at = hash_value(c, key) & (d->n_slot - 1);
    while (d->slot[at]) at = (at + 1) & (d->n_slot - 1);
    d->slot[at] = (uint32_t)d->n;
}

bool ft_jdict_remove(ft_jctx *c, ft_jdict *d, ft_jv key)
{
    ft_jpair *p = find_pair(c, d, key);
    if (!p) return false;
    const size_t i = (size_t)(p - d->v);
    memmove(p, p + 1, (d->n - i - 1) * sizeof *p);
    d->n--;
    ft_j_step(c, d->n / 8);
    if (d->slot) rehash(c, d);
    return true;
}

ft_jv ft_jv_from_json(ft_jctx *c, const json_t *j)
{
    ft_j_step(c, 1);
    switch (json_typeof(j)) {
    case JSON_NULL: return ft_jv_none();
    case JSON_TRUE: return ft_jv_bool(true);
    case JSON_FALSE: return ft_jv_bool(false);
    case JSON_INTEGER: return ft_jv_int(json_integer_value(j));
    case JSON_REAL: return ft_jv_float(json_real_value(j));
    case JSON_STRING: {
        const size_t n = json_string_length(j);
        if (n > UINT32_MAX) ft_j_fail(c, FT_ELIMIT, "a string of more than 4 GiB");
        return ft_jv_copy_str(c, (ft_str){json_string_value(j), n});
    }
    case JSON_ARRAY: {
        ft_j_enter(c);
        ft_jlist *l = ft_jlist_new(c, json_array_size(j));
        for (size_t i = 0; i < json_array_size(j); i++)
            ft_jlist_put(c, l, ft_jv_from_json(c, json_array_get(j, i)));
        ft_j_leave(c);
        return ft_jv_ref(FT_J_LIST, l);
    }
    case JSON_OBJECT: break;
    }
    ft_j_enter(c);
    ft_jdict *d = ft_jdict_new(c, json_object_size(j));
    /* jansson iterates in insertion order; the cast drops const only because its API lacks it. */
    json_t *o = (json_t *)(uintptr_t)j;
    for (void *it = json_object_iter(o); it; it = json_object_iter_next(o, it)) {
        const ft_str key = {json_object_iter_key(it), strlen(json_object_iter_key(it))};
        ft_jdict_put(c, d, ft_jv_copy_str(c, key), ft_jv_from_json(c, json_object_iter_value(it)));
    }
    ft_j_leave(c);
    return ft_jv_ref(FT_J_DICT, d);
}

/* ---- queries ---- */

const char *ft_jv_type(ft_jv v)
{
    static const char *const names[] = {
        "Undefined", "NoneType", "bool",   "int",    "float",     "str",
        "list",      "tuple",    "dict",   "range",  "Namespace", "LoopContext",
        "Macro",     "function", "method", "Cycler", "Joiner",
    };
    return names[v.kind];
}

bool ft_jv_truth(ft_jv v)
{
    switch (v.kind) {
    case FT_J_UNDEF:
    case FT_J_NONE: return false;
    case FT_J_BOOL: return v.u.b;
    case FT_J_INT: return v.u.i != 0;
    case FT_J_FLOAT: return v.u.f < 0 || v.u.f > 0 || isnan(v.u.f);
    case FT_J_STR: return v.n != 0;
    case FT_J_LIST:
    case FT_J_TUPLE: return v.u.list->n != 0;
    case FT_J_DICT: return v.u.dict->n != 0;
    case FT_J_RANGE: return ((const ft_jrange *)v.u.p)->n != 0;
    default: return true;
    }
}

bool ft_jv_integer(ft_jv v, int64_t *out)
{
    if (v.kind != FT_J_INT && v.kind != FT_J_BOOL) return false;
    *out = v.kind == FT_J_INT ? v.u.i : v.u.b;
    return true;
}

bool ft_jv_number(ft_jv v, double *out)
{
    int64_t i;
    if (ft_jv_integer(v, &i))
        *out = (double)i;
    else if (v.kind == FT_J_FLOAT)
        *out = v.u.f;
    else
        return false;
    return true;
}

static ft_jv range_at(ft_jv v, size_t i)
{
    const ft_jrange *r = v.u.p;
    return ft_jv_int(r->start + r->step * (int64_t)i);
}

static bool equal_lists(ft_jctx *c, const ft_jlist *a, const ft_jlist *b)
{
    if (a->n != b->n) return false;
    for (size_t i = 0; i < a->n; i++)
        if (!ft_jv_equal(c, a->v[i], b->v[i])) return false;
    return true;
}

static bool equal_dicts(ft_jctx *c, const ft_jdict *a, const ft_jdict *b)
{
    if (a->n != b->n) return false;
    for (size_t i = 0; i < a->n; i++) {
        const ft_jv *v = ft_jdict_find(c, b, a->v[i].key);
        if (!v || !ft_jv_equal(c, a->v[i].value, *v)) return false;
    }
    return true;
}

bool ft_jv_equal(ft_jctx *c, ft_jv a, ft_jv b)
{
    int64_t i, k;
    double x, y;
    if (ft_jv_integer(a, &i) && ft_jv_integer(b, &k)) return i == k;
    if (ft_jv_number(a, &x) && ft_jv_number(b, &y)) return !(x < y) && !(x > y) && !isnan(x + y);
    if (a.kind != b.kind) return false;
    ft_j_step(c, 1);
    if (a.kind == FT_J_STR) {
        if (a.n == b.n) ft_j_step(c, a.n / 64);
        return ft_str_eq(ft_jv_text(a), ft_jv_text(b));
    }
    if (a.kind == FT_J_NONE || a.kind == FT_J_UNDEF) return true;
    if (a.u.p == b.u.p) return true;
    bool same = false;
    ft_j_enter(c);
    if (ft_jv_is_seq(a))
        same = equal_lists(c, a.u.list, b.u.list);
    else if (a.kind == FT_J_DICT)
        same = equal_dicts(c, a.u.dict, b.u.dict);
    else if (a.kind == FT_J_RANGE)
        same = equal_lists(c, ft_jv_elements(c, a), ft_jv_elements(c, b));
    ft_j_leave(c);
    return same;
}

int ft_jv_compare(ft_jctx *c, ft_jv a, ft_jv b)
{
    int64_t i, k;
    double x, y;
    ft_j_step(c, 1);
    if (ft_jv_integer(a, &i) && ft_jv_integer(b, &k)) return (i > k) - (i < k);
    if (ft_jv_number(a, &x) && ft_jv_number(b, &y)) return (x > y) - (x < y);
    if (a.kind == FT_J_STR && b.kind == FT_J_STR) {
        const size_t n = FT_MIN(a.n, b.n);
        ft_j_step(c, n / 64);
        const int d = n ? memcmp(a.u.s, b.u.s, n) : 0;
        return d ? (d > 0) - (d < 0) : (a.n > b.n) - (a.n < b.n);
    }
    if (ft_jv_is_seq(a) && a.kind == b.kind) {
        const ft_jlist *p = a.u.list, *q = b.u.list;
        ft_j_enter(c);
        for (size_t e = 0; e < p->n && e < q->n; e++)
            if (!ft_jv_equal(c, p->v[e], q->v[e])) {
                const int d = ft_jv_compare(c, p->v[e], q->v[e]);
                ft_j_leave(c);
                return d;
            }
        ft_j_leave(c);
        return (p->n > q->n) - (p->n < q->n);
    }
    if (a.kind == FT_J_UNDEF || b.kind == FT_J_UNDEF) {
        const ft_str name = ft_jv_text(a.kind == FT_J_UNDEF ? a : b);
        ft_j_fail(c, FT_EINVAL, "'%.*s' is undefined and cannot be compared", FT_STR_FMT(name));
    }
    ft_j_fail(c, FT_EINVAL, "%s and %s cannot be compared", ft_jv_type(a), ft_jv_type(b));
}

bool ft_jv_length(ft_jctx *c, ft_jv v, size_t *out)
{
    switch (v.kind) {
    case FT_J_UNDEF: *out = 0; return true;
    case FT_J_STR:
        ft_j_step(c, v.n / 64);
        *out = ft_j_utf8_count(ft_jv_text(v));
        return true;
    case FT_J_LIST:
    case FT_J_TUPLE: *out = v.u.list->n; return true;
    case FT_J_DICT: *out = v.u.dict->n; return true;
    case FT_J_RANGE: *out = (size_t)((const ft_jrange *)v.u.p)->n; return true;
    default: return false;
    }
}

bool ft_jv_contains(ft_jctx *c, ft_jv box, ft_jv item)
{
    if (box.kind == FT_J_STR) {
        if (item.kind != FT_J_STR)
            ft_j_fail(c, FT_EINVAL, "'in' with a string: want a string on the left, found %s",
                      ft_jv_type(item));
        ft_j_step(c, box.n / 16);
        return ft_str_find(ft_jv_text(box), ft_jv_text(item), 0) != SIZE_MAX;
    }
    if (box.kind == FT_J_DICT) return ft_jdict_find(c, box.u.dict, item) != NULL;
    const ft_jlist *l = ft_jv_elements(c, box);
    for (size_t i = 0; i < l->n; i++)
        if (ft_jv_equal(c, l->v[i], item)) return true;
    return false;
}

const ft_jlist *ft_jv_elements(ft_jctx *c, ft_jv v)
{
    size_t n = 0;
    if (ft_jv_is_seq(v)) return v.u.list;
    if (!ft_jv_length(c, v, &n))
        ft_j_fail(c, FT_EINVAL, "a value of type %s cannot be iterated", ft_jv_type(v));
    ft_jlist *l = ft_jlist_new(c, n);
    ft_j_step(c, n);
    if (v.kind == FT_J_RANGE) {
        for (size_t i = 0; i < n; i++) ft_jlist_put(c, l, range_at(v, i));
    } else if (v.kind == FT_J_DICT) {
        for (size_t i = 0; i < n; i++) ft_jlist_put(c, l, v.u.dict->v[i].key);
    } else if (v.kind == FT_J_STR) {
        for (size_t at = 0; at < v.n;) {
            int len;
            ft_utf8_decode(v.u.s + at, v.n - at, &len);
            ft_jlist_put(c, l, ft_jv_str(v.u.s + at, (size_t)len));
            at += (size_t)len;
        }
    }
    return l;
}

void ft_jpairs_sort(ft_jctx *c, ft_jpair *v, ft_jpair *tmp, size_t n, bool reverse)
{
    if (n < 2) return;
    const size_t h = n / 2;
    ft_jpairs_sort(c, v, tmp, h, reverse);
    ft_jpairs_sort(c, v + h, tmp, n - h, reverse);
    memcpy(tmp, v, n * sizeof *v);
    for (size_t i = 0, j = h, k = 0; k < n; k++) {
        bool left = j == n;
        if (!left && i < h) {
            const int d = ft_jv_compare(c, tmp[i].key, tmp[j].key);
            left = reverse ? d >= 0 : d <= 0;
        }
        v[k] = left ? tmp[i++] : tmp[j++];
    }
}
