#include "text/bpe.h"

#include "base/buf.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/utf8.h"
#include "text/nfc.h"
#include "text/vocab_priv.h"

#include <pthread.h>

/* ---- ids ---- */

void ft_ids_init(ft_ids *l, size_t max)
{
    *l = (ft_ids){.max = max};
}

void ft_ids_release(ft_ids *l)
{
    ft_free(l->id);
    *l = (ft_ids){0};
}

/* Makes space for n more ids; false when that would exceed the maximum. */
static bool reserve_ids(ft_ids *l, size_t n)
{
    if (n > l->max - l->n) {
        l->full = true;
        return false;
    }
    if (l->n + n > l->cap) {
        l->cap = FT_MIN(l->max, FT_MAX(l->cap * 2, l->n + n + 64));
        l->id = ft_realloc(l->id, l->cap * sizeof *l->id);
    }
    return true;
}

void ft_ids_put(ft_ids *l, int32_t id)
{
    if (reserve_ids(l, 1)) l->id[l->n++] = id;
}

/* ---- encoders: working memory, one per encoding thread, taken from a pool ---- */

/* A cache of recently merged pieces. A hit requires equal bytes, so a lost or replaced entry only
 * costs time. Most pieces of a text are short and have few tokens. */
#define CACHE_SLOTS ((size_t)1 << 14)
#define CACHE_BYTES 15
#define CACHE_IDS   4

typedef struct entry {
    uint64_t key[2]; /* the bytes, then zeros; the last byte is length | ids << 4, 0: empty */
    int32_t id[CACHE_IDS];
} entry;

typedef struct encoder {
    struct encoder *next;
    entry *cache;
    ft_merge_work merge;
    ft_tree_work tree;
    ft_pretok_work *pretok; /* NULL for a tokenizer without a split pattern */
    ft_nfc_work nfc;
    ft_buf normal; /* text after normalisation */
    ft_sym *sym;
    size_t cap_sym;
} encoder;

#define POOL_KEEPS 16                /* idle encoders kept; further ones are freed after use */
#define KEEP_SYMS  ((size_t)1 << 16) /* an encoder that grew beyond this is not kept */

struct ft_encoder_pool {
    pthread_mutex_t lock;
    encoder *idle;
    int n_idle;
};

static void encoder_free(encoder *e)
{
    if (!e) return;
    ft_merge_work_release(&e->merge);
    ft_tree_work_release(&e->tree);
    ft_pretok_work_free(e->pretok);
    ft_nfc_work_release(&e->nfc);
    ft_buf_release(&e->normal);
    ft_free(e->sym);
    ft_free(e->cache);
    ft_free(e);
}

ft_encoder_pool *ft_encoder_pool_new(void)
{
    ft_encoder_pool *p = ft_new(ft_encoder_pool);
    pthread_mutex_init(&p->lock, NULL);
    return p;
}

void ft_encoder_pool_free(ft_encoder_pool *p)
{
    if (!p) return;
    for (encoder *e = p->idle, *next; e; e = next) {
        next = e->next;
        encoder_free(e);
    }
    pthread_mutex_destroy(&p->lock);
    ft_free(p);
}

static encoder *encoder_take(const ft_vocab *v)
{
    ft_encoder_pool *p = v->pool;
    pthread_mutex_lock(&p->lock);
    encoder *e = p->idle;
    if (e) {
        p->idle = e->next;
        p->n_idle--;
    }
    pthread_mutex_unlock(&p->lock);
    if (e) return e;
    e = ft_new(encoder);
    e->cache = ft_alloc_aligned(CACHE_SLOTS * sizeof *e->cache, 64);
    ft_buf_init(&e->normal, 4 * FT_ENCODE_MAX_TEXT); /* one byte becomes at most three */
    if (v->pretok) e->pretok = ft_pretok_work_new(v->pretok);
    return e;
}

static void encoder_give(const ft_vocab *v, encoder *e)
{
    ft_encoder_pool *p = v->pool;
    pthread_mutex_lock(&p->lock);
    const bool keep = p->n_idle < POOL_KEEPS && e->cap_sym <= KEEP_SYMS &&
                      e->tree.cap <= KEEP_SYMS && e->normal.cap <= KEEP_SYMS &&
                      e->nfc.cap <= KEEP_SYMS;
    if (keep) {
        e->next = p->idle;
        p->idle = e;
        p->n_idle++;
    }
    pthread_mutex_unlock(&p->lock);
    if (!keep) encoder_free(e);
}

/* ---- one piece ---- */

typedef struct job {
    const ft_vocab *v;
    encoder *e;
    ft_ids *out;
    ft_err *err;
} job;

static ft_sym *reserve_syms(encoder *e, size_t n)
{
    if (n > e->cap_sym) {
        e->cap_sym = FT_MAX(n, (size_t)1024);
        ft_free(e->sym);
        e->sym = ft_new_n(ft_sym, e->cap_sym);
    }
    return e->sym;
}

static size_t byte_symbols(const ft_vocab *v, encoder *e, ft_str s)
{
    ft_sym *a = reserve_syms(e, s.n);
    for (size_t i = 0; i < s.n; i++) a[i] = (ft_sym){v->byte_sym[(unsigned char)s.p[i]], 1};
    return s.n;
}

static size_t char_symbols(const ft_vocab *v, encoder *e, ft_str s)
{
    ft_sym *a = reserve_syms(e, s.n);
    size_t k = 0;
    for (size_t i = 0; i < s.n; k++) {
        int len;
        const uint32_t c = ft_utf8_decode(s.p + i, s.n - i, &len);
        const uint32_t *page = c == FT_UTF8_BAD ? NULL : v->chars->page[c >> 8];
        a[k] = (ft_sym){page ? page[c & 255] : FT_NO_SYM, (uint32_t)len};
        i += (size_t)len;
    }
    return k;
}

/* Writes a symbol that is not a token as byte tokens. */
static ft_status put_bytes(job *j, ft_str s)
{
    for (size_t i = 0; i < s.n; i++) {
        const unsigned char b = (unsigned char)s.p[i];
        uint32_t id = j->v->byte_sym[b];
        if (id == FT_NO_SYM && j->v->ids.unk != FT_NO_TOKEN) id = (uint32_t)j->v->ids.unk;
        if (id == FT_NO_SYM)
            return ft_fail(j->err, FT_EUNSUPPORTED, "the vocabulary has no token for byte 0x%02X",
                           b);
        ft_ids_put(j->out, (int32_t)id);
    }
    return FT_OK;
}

/* false when the tree cannot encode s: it contains a symbol that is not a token. */
static bool put_tree(job *j, ft_str s)
{
    ft_ids *out = j->out;
    const size_t n = ft_merge_tree_encode(j->v->tree, &j->e->tree, s);
    if (!n) return false;
    if (reserve_ids(out, n)) {
        memcpy(out->id + out->n, j->e->tree.id, n * sizeof *out->id);
        out->n += n;
    }
    return true;
}

static ft_status merge_piece(job *j, ft_str s)
{
    const ft_vocab *v = j->v;
    if (v->tree && put_tree(j, s)) return FT_OK;
    size_t n = v->family == FT_FAMILY_BYTES ? byte_symbols(v, j->e, s) : char_symbols(v, j->e, s);
    ft_sym *a = j->e->sym;
    n = ft_merge(&v->merges, &j->e->merge, a, n);
    for (size_t i = 0, at = 0; i < n; at += a[i++].len) {
        if (a[i].id != FT_NO_SYM) {
            ft_ids_put(j->out, (int32_t)a[i].id);
            continue;
        }
        const ft_status st = put_bytes(j, (ft_str){s.p + at, a[i].len});
        if (st) return st;
    }
    return FT_OK;
}

/* The cache entry of a piece of 1..CACHE_BYTES bytes, and its key without the number of ids. The
 * text is readable up to `end`. Assumes a little-endian machine. */
static entry *cache_slot(encoder *e, ft_str s, const char *end, uint64_t key[2])
{
    if (end - s.p >= 16) {
        memcpy(key, s.p, 16);
        if (s.n < 8) {
            key[0] &= ~(UINT64_MAX << (8 * s.n));
            key[1] = 0;
        } else {
            key[1] &= ~(UINT64_MAX << (8 * (s.n - 8)));
        }
    } else {
        key[0] = key[1] = 0;
        memcpy(key, s.p, s.n);
    }
    key[1] |= (uint64_t)s.n << 56;
    const uint64_t h = (key[0] * 0x9E3779B97F4A7C15u) ^ (key[1] * 0xD6E8FEB86659FD93u);
    return &e->cache[(h ^ h >> 32) * 0x9E3779B97F4A7C15u >> 50];
}

static ft_status put_piece(job *j, ft_str s, const char *end)
{
    if (s.n > CACHE_BYTES) return merge_piece(j, s);
    uint64_t key[2];
    entry *c = cache_slot(j->e, s, end, key);
    const uint64_t ids_mask = (uint64_t)0xF0 << 56;
    ft_ids *out = j->out;
    if (c->key[0] == key[0] && (c->key[1] & ~ids_mask) == key[1]) {
        const size_t n = (size_t)(c->key[1] >> 60);
        if (reserve_ids(out, n)) {
            for (size_t i = 0; i < n; i++) out->id[out->n + i] = c->id[i];
            out->n += n;
        }
        return FT_OK;
    }
    const size_t first = out->n;
    const ft_status st = merge_piece(j, s);
    const size_t n = out->n - first;
    if (st || out->full || n > CACHE_IDS) return st;
    c->key[0] = key[0];
    c->key[1] = key[1] | (uint64_t)n << 60;
    memcpy(c->id, out->id + first, n * sizeof *c->id);
    return FT_OK;
}

/* ---- text between special tokens ---- */

/* Length of the valid UTF-8 at the start of s. *high: it contains characters from U+0300 on. */
static size_t valid_prefix(ft_str s, bool *high)
{
    size_t i = 0;
    *high = false;
    for (;;) {
        uint64_t w;
        while (i + 8 <= s.n && (memcpy(&w, s.p + i, 8), !(w & 0x8080808080808080u))) i += 8;
        if (i == s.n) return i;
        int len;
        if (ft_utf8_decode(s.p + i, s.n - i, &len) == FT_UTF8_BAD) return i;
        if ((unsigned char)s.p[i] >= 0xCC) *high = true;
        i += (size_t)len;
    }
}

static ft_status put_split(job *j, ft_str s)
{
    for (size_t i = 0; i < s.n;) {
        const size_t n = ft_pretok_next(j->v->pretok, j->e->pretok, s, i);
        if (!n)
            return ft_fail(j->err, FT_ELIMIT, "PCRE2 failed on a text of %zu bytes at byte %zu",
                           s.n, i);
        const ft_status st = put_piece(j, (ft_str){s.p + i, n}, s.p + s.n);
        if (st) return st;
        i += n;
    }
    return FT_OK;
}

static ft_status put_text_bytes(job *j, ft_str s, bool nfc)
{
    ft_status st = FT_OK;
    while (s.n && !st) {
        bool high;
        const size_t n = valid_prefix(s, &high);
        ft_str part = {s.p, n};
        if (n && nfc && high && ft_nfc_needed(part)) {
            ft_buf_clear(&j->e->normal);
            ft_nfc(part, &j->e->nfc, &j->e->normal);
            part = ft_buf_str(&j->e->normal);
        }
        if (n) st = put_split(j, part);
        if (!st && n < s.n) st = put_bytes(j, (ft_str){s.p + n, 1});
        const size_t step = FT_MIN(n + 1, s.n);
        s.p += step;
        s.n -= step;
    }
    return st;
}

/* Length of a space at p: the plain space or the marker U+2581; 0 when there is none. */
static size_t space_at(const char *p, size_t n)
{
    if (p[0] == ' ') return 1;
    return n >= 3 && !memcmp(p, "\xE2\x96\x81", 3) ? 3 : 0;
}

/* The end of the piece at s: before or after a run of newlines, or before a space that no merge
 * rule joins with the preceding text. */
static size_t char_piece(const ft_vocab *v, ft_str s)
{
    size_t i = 0, k;
    while (i < s.n && s.p[i] == '\n') i++;
    if (i) return i;
    while (i < s.n && (k = space_at(s.p + i, s.n - i))) i += k;
    while (i < s.n && s.p[i] != '\n') {
        if (i && (s.p[i] == ' ' || s.p[i] == '\xE2') && space_at(s.p + i, s.n - i) &&
            !v->joins_space[(unsigned char)s.p[i - 1]])
            break;
        i++;
    }
    return i;
}

static ft_status put_text_chars(job *j, ft_str s)
{
    while (s.n) {
        const ft_str piece = {s.p, char_piece(j->v, s)};
        uint32_t id;
        ft_status st = FT_OK;
        if (piece.p[0] == '\n' && ft_dict_find(&j->v->by_text, piece, &id))
            ft_ids_put(j->out, (int32_t)id);
        else
            st = put_piece(j, piece, s.p + s.n);
        if (st) return st;
        s.p += piece.n;
        s.n -= piece.n;
    }
    return FT_OK;
}

static ft_status put_text(job *j, ft_str s, unsigned flags)
{
    if (j->v->family == FT_FAMILY_CHARS) return put_text_chars(j, s);
    return put_text_bytes(j, s, !(flags & FT_BPE_NO_NFC));
}

static ft_status put_all(job *j, ft_str text, unsigned flags)
{
    if (!text.n) return FT_OK; /* its pointer may be NULL */
    ft_special_cut cut;
    ft_special_cut_init(&cut, &j->v->special, text, flags & FT_BPE_PARSE_SPECIAL);
    ft_special_match m;
    size_t at = 0;
    ft_status st = FT_OK;
    while (!st && ft_special_cut_next(&cut, &m)) {
        st = put_text(j, (ft_str){text.p + at, m.at - at}, flags);
        if (!st && m.id < 0)
            st = put_text(j, j->v->text[-2 - m.id], flags);
        else if (!st)
            ft_ids_put(j->out, m.id);
        at = m.at + m.len;
    }
    if (!st) st = put_text(j, (ft_str){text.p + at, text.n - at}, flags);
    ft_special_cut_release(&cut);
    return st;
}

ft_status ft_encode(const ft_vocab *v, ft_str text, unsigned flags, ft_ids *out, ft_err *err)
{
    if (text.n > FT_ENCODE_MAX_TEXT)
        return ft_fail(err, FT_ELIMIT, "a text of %zu bytes, want at most %zu", text.n,
                       FT_ENCODE_MAX_TEXT);
    job j = {v, encoder_take(v), out, err};
    if (v->pretok && !j.e->pretok) {
        encoder_free(j.e);
        return ft_fail(err, FT_ENOMEM, "no memory for PCRE2");
    }
    const bool add = flags & FT_BPE_ADD_SPECIAL;
    if (add && v->add_bos && v->ids.bos != FT_NO_TOKEN) ft_ids_put(out, v->ids.bos);
    const ft_status st = put_all(&j, text, flags);
    if (add && !st && v->add_eos && v->ids.eos != FT_NO_TOKEN) ft_ids_put(out, v->ids.eos);
    encoder_give(v, j.e);
    if (!st && out->full)
        return ft_fail(err, FT_ELIMIT, "a text of %zu bytes has more tokens than the limit of %zu",
                       text.n, out->max);
    return st;
}
