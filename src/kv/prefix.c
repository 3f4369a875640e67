#include "kv/prefix.h"

#include "base/cursor.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "kv/kept.h"
#include "kv/kv_priv.h"

#include <xxhash.h>

typedef struct node {
    ft_point p;     /* pages NULL: only in its file; state NULL: only in its file, or dropped */
    bool on_disk;   /* has a file */
    bool has_state; /* a sequence can resume from it */
    uint64_t used;  /* when it was last used, on the tree's clock */
    struct node *parent, *child, *sibling;
} node;

struct ft_prefix {
    ft_cache *c;
    ft_prefix_params p;
    ft_point_shape s;
    ft_owners o; /* who has the bytes of which layers */
    uint64_t used[FT_OWNERS];
    ft_point_dir *dir; /* NULL: memory only */
    node root;         /* the empty prefix */
    uint64_t clock;
    ft_prefix_counts n;
};

/* ---- the tree ---- */

static ft_kept_size pages_size(const ft_prefix *p, int from, int len)
{
    return (ft_kept_size){.pages = ft_point_pages_end(&p->s, len) - from / FT_PAGE_ROWS};
}

static ft_kept_size state_size(const ft_prefix *p, int len)
{
    const int first = ft_point_window_first(&p->s, len), end = ft_point_pages_end(&p->s, len);
    return (ft_kept_size){
        .window_pages = p->s.window ? end - first : 0, .state = true, .extra = p->p.extra};
}

/* Bytes of a node in the memory of an owner. */
static size_t owner_bytes(const ft_prefix *p, const node *n, int owner)
{
    const ft_kept_size pages = pages_size(p, n->p.from, n->p.len), state = state_size(p, n->p.len);
    size_t sum = owner ? 0 : sizeof *n + sizeof(int32_t) * (size_t)(n->p.len - n->p.from);
    sum += ft_kept_bytes(&p->o, &pages, owner, ft_kept_whole(&p->o, n->p.pages));
    if (n->has_state) sum += ft_kept_bytes(&p->o, &state, owner, ft_kept_whole(&p->o, n->p.state));
    return sum;
}

static size_t node_bytes(const ft_prefix *p, const node *n)
{
    size_t sum = 0;
    for (int i = 0; i < p->o.n; i++) sum += owner_bytes(p, n, i);
    return sum;
}

/* Counts the bytes of a node, or counts them no longer; around every change of it. */
static void count_bytes(ft_prefix *p, const node *n, bool in)
{
    for (int i = 0; i < p->o.n; i++) {
        const uint64_t bytes = owner_bytes(p, n, i);
        p->used[i] += in ? bytes : -bytes;
        p->n.bytes += in ? bytes : -bytes;
    }
}

/* Whether the node's own ids equal those of ids at its position; it must end at `end` or before. */
static bool matches(const node *n, const int32_t *ids, int end)
{
    return n->p.len <= end &&
           !memcmp(n->p.ids, ids + n->p.from, sizeof *ids * (size_t)(n->p.len - n->p.from));
}

/* The deepest node below `at` that is a beginning of ids[0..end); with_state: one to pick up. All
 * nodes below a child of the root have its salt. */
static node *deepest(node *at, const int32_t *ids, int end, bool with_state)
{
    node *best = !with_state || at->has_state ? at : NULL;
    for (node *c = at->child; c; c = c->sibling) {
        if (!matches(c, ids, end)) continue;
        node *d = deepest(c, ids, end, with_state);
        if (d && (!best || d->p.len > best->p.len)) best = d;
    }
    return best;
}

/* The same in the whole tree, for requests with this salt. */
static node *deepest_of(ft_prefix *p, uint64_t salt, const int32_t *ids, int end, bool with_state)
{
    node *best = with_state ? NULL : &p->root;
    for (node *c = p->root.child; c; c = c->sibling) {
        if (c->p.salt != salt || !matches(c, ids, end)) continue;
        node *d = deepest(c, ids, end, with_state);
        if (d && (!best || d->p.len > best->p.len)) best = d;
    }
    return best;
}

static void link_to(node *parent, node *n)
{
    n->parent = parent;
    n->sibling = parent->child;
    parent->child = n;
}

static void unlink_from(node *n)
{
    node **at = &n->parent->child;
    while (*at != n) at = &(*at)->sibling;
    *at = n->sibling;
    n->parent = n->sibling = NULL;
}

static void touch(ft_prefix *p, node *n)
{
    p->clock++;
    for (; n; n = n->parent) n->used = p->clock;
}

/* Removes the node and its subtree. */
static void drop_tree(ft_prefix *p, node *n, bool file)
{
    while (n->child) drop_tree(p, n->child, file);
    unlink_from(n);
    count_bytes(p, n, false);
    p->n.points--;
    if (file && n->on_disk) ft_point_dir_remove(p->dir, n->p.key);
    ft_point_release(&n->p);
    ft_free(n);
}

/* ---- eviction ---- */

static void drop_state(ft_prefix *p, node *n)
{
    count_bytes(p, n, false);
    ft_blob_drop(n->p.state);
    n->p.state = NULL;
    n->has_state = false;
    count_bytes(p, n, true);
}

/* Tokens that the checkpoint saves, over bytes and age. */
static double worth(const ft_prefix *p, const node *n)
{
    const node *above = n->parent;
    while (above->parent && !above->has_state) above = above->parent;
    const double tokens = n->has_state ? n->p.len - above->p.len : 0;
    const double bytes =
        n->child ? (double)ft_point_state_bytes(&p->s, n->p.len) : (double)node_bytes(p, n);
    return tokens / (1 + (double)(p->clock - n->used)) / (1 + bytes);
}

/* The least valuable of those that can be evicted: leaves, and states. */
static node *least(const ft_prefix *p, node *at, const node *spare, node *best)
{
    for (node *c = at->child; c; c = c->sibling) {
        best = least(p, c, spare, best);
        const bool can = !c->child || c->has_state;
        if (c != spare && can && (!best || worth(p, c) < worth(p, best))) best = c;
    }
    return best;
}

/* The budget is that of each process. */
static bool is_full(const ft_prefix *p)
{
    for (int i = 0; i < p->o.n; i++)
        if (p->used[i] > p->p.bytes) return true;
    return false;
}

static void make_room(ft_prefix *p, const node *spare)
{
    while (is_full(p)) {
        node *n = least(p, &p->root, spare, NULL);
        if (!n) return;
        if (!n->child) {
            drop_tree(p, n, true);
            continue;
        }
        drop_state(p, n);
        /* replaces the file that has the state */
        if (n->on_disk && n->p.pages) ft_point_dir_write(p->dir, &n->p);
    }
}

/* ---- creation and destruction ---- */

static ft_key key_of(const ft_prefix *p, uint64_t salt, const int32_t *ids, int n)
{
    if (!n) return (ft_key){0, 0};
    const XXH128_hash_t h = XXH3_128bits_withSeed(ids, sizeof *ids * (size_t)n, p->s.digest ^ salt);
    return (ft_key){h.low64, h.high64};
}

static void count_in(ft_prefix *p, const node *n)
{
    count_bytes(p, n, true);
    p->n.points++;
}

static node *find_key(node *at, ft_key k)
{
    if (at->p.key.low == k.low && at->p.key.high == k.high) return at;
    for (node *c = at->child; c; c = c->sibling) {
        node *n = find_key(c, k);
        if (n) return n;
    }
    return NULL;
}

/* Takes over a checkpoint from outside; NULL when its parent does not exist. */
static node *adopt(ft_prefix *p, ft_point *pt)
{
    node *parent = pt->from ? find_key(&p->root, pt->parent) : &p->root;
    if (!parent || parent->p.len != pt->from || (pt->from && parent->p.salt != pt->salt)) {
        ft_point_release(pt);
        return NULL;
    }
    node *n = ft_new(node);
    n->p = *pt;
    n->used = ++p->clock;
    link_to(parent, n);
    return n;
}

/* A checkpoint of the folder; parents come before their children. */
static void from_folder(void *user, ft_point *pt)
{
    ft_prefix *p = user;
    const ft_key key = pt->key;
    node *n = adopt(p, pt);
    if (!n) {
        ft_point_dir_remove(p->dir, key);
        return;
    }
    n->on_disk = true;
    n->has_state = true; /* unless its file turns out to have none */
    count_in(p, n);
}

ft_status ft_prefix_new(ft_prefix **out, ft_cache *c, const ft_prefix_params *params, ft_err *err)
{
    ft_prefix *p = ft_new(ft_prefix);
    p->c = c;
    p->p = *params;
    p->s = (ft_point_shape){
        .digest = XXH3_64bits_withSeed(&params->model, sizeof params->model,
                                       ft_cache_layout(c) + params->extra),
        .page_rows = FT_PAGE_ROWS,
        .cells = c->p.cells,
        .page = ft_cache_page_bytes(c, FT_SPACE_FULL),
        .window_page = ft_cache_page_bytes(c, FT_SPACE_WINDOW),
        .rest = ft_cache_state_bytes(c) + params->extra,
        .window = c->space[FT_SPACE_WINDOW].window,
    };
    p->n.state = ft_point_state_bytes(&p->s, p->s.cells);
    ft_owners_init(&p->o, c, params->dir != NULL); /* files are written by this process */
    if (c->dev->save_list) c->dev->save_list(c->dev, NULL, 0, NULL);
    if (params->dir) {
        const ft_status st = ft_point_dir_open(&p->dir, params->dir, &p->s, err);
        if (st) {
            ft_owners_release(&p->o);
            ft_free(p);
            return st;
        }
        ft_point_dir_list(p->dir, from_folder, p);
        make_room(p, NULL);
    }
    *out = p;
    return FT_OK;
}

void ft_prefix_free(ft_prefix *p)
{
    if (!p) return;
    while (p->root.child) drop_tree(p, p->root.child, false);
    ft_point_dir_close(p->dir);
    ft_owners_release(&p->o);
    ft_free(p);
}

void ft_prefix_count(const ft_prefix *p, ft_prefix_counts *out)
{
    *out = p->n;
}

/* ---- lookup ---- */

/* Loads the node and all its ancestors into memory, or waits for their copies; false when a file is
 * damaged or a copy failed: then the node and its subtree are removed. */
static bool load_node(ft_prefix *p, node *n)
{
    if (n->parent->parent && !load_node(p, n->parent)) return false;
    ft_err err;
    ft_status st = FT_OK;
    if (!n->p.pages)
        st = ft_point_dir_load(p->dir, &n->p, &err);
    else if (!ft_blob_wait(n->p.pages) || !ft_blob_wait(n->p.state))
        st = ft_fail(&err, FT_EIO, "a prefix of %d tokens could not be copied", n->p.len);
    if (st) {
        ft_log(FT_LOG_WARN, "%s", err.text);
        drop_tree(p, n, true);
        return false;
    }
    if (!n->p.state && n->has_state) drop_state(p, n);
    return true;
}

/* From the root down: where a checkpoint lies inside a page, the next one has that page too, with
 * more rows. */
static void fill_pages(const ft_prefix *p, const node *n, ft_seq *s)
{
    if (!n->parent) return;
    fill_pages(p, n->parent, s);
    ft_kept_copy k = {.o = &p->o, .b = n->p.pages};
    ft_kept_pages(&k, s, FT_SPACE_FULL, n->p.from / FT_PAGE_ROWS,
                  ft_point_pages_end(&p->s, n->p.len));
}

static void fill(const ft_prefix *p, const node *n, ft_seq *s, void *extra)
{
    const int len = n->p.len, first = ft_point_window_first(&p->s, len);
    ft_kept_copy k = {.o = &p->o, .b = n->p.state};
    if (p->s.window) ft_kept_pages(&k, s, FT_SPACE_WINDOW, first, ft_point_pages_end(&p->s, len));
    ft_kept_state(&k, s);
    memcpy(extra, k.b->data + k.at[0], p->p.extra);
    fill_pages(p, n, s);
}

int ft_prefix_find(ft_prefix *p, uint64_t salt, const int32_t *ids, int n, int longer, ft_seq *s,
                   void *extra)
{
    node *best;
    do { /* a damaged checkpoint is removed, and another one may match */
        best = deepest_of(p, salt, ids, n - 1, true);
        if (!best || best->p.len <= longer) return 0;
    } while (!load_node(p, best) || !best->has_state);
    const int len = best->p.len;
    touch(p, best);
    if (!ft_seq_adopt(s, len, ft_point_window_first(&p->s, len))) return 0;
    fill(p, best, s, extra);
    return len;
}

/* ---- insertion ---- */

static ft_blob *state_of(const ft_prefix *p, int len, const ft_seq *s, const void *extra)
{
    const ft_kept_size size = state_size(p, len);
    ft_kept_copy k = {.o = &p->o, .b = ft_kept_new(&p->o, &size), .save = true};
    if (!k.b) return NULL;
    if (p->s.window)
        ft_kept_pages(&k, s, FT_SPACE_WINDOW, ft_point_window_first(&p->s, len),
                      ft_point_pages_end(&p->s, len));
    ft_kept_state(&k, s);
    if (extra) memcpy(k.b->data + k.at[0], extra, p->p.extra);
    return k.b;
}

/* A child of the parent whose ids pass through the new checkpoint becomes a child of that, with
 * the rest of its pages. Its file stays as it is: it contains the same. */
static void regroup(ft_prefix *p, node *parent, node *n)
{
    for (node *c = parent->child, *next; c; c = next) {
        next = c->sibling;
        const size_t cut = (size_t)(n->p.len - n->p.from);
        if (c == n || c->p.salt != n->p.salt || !c->p.pages || c->p.len <= n->p.len ||
            memcmp(c->p.ids, n->p.ids, cut * sizeof *n->p.ids))
            continue;
        count_bytes(p, c, false);
        ft_blob *rest =
            ft_kept_without(&p->o, c->p.pages, n->p.len / FT_PAGE_ROWS - n->p.from / FT_PAGE_ROWS);
        if (!rest) {
            count_bytes(p, c, true);
            continue;
        }
        c->p.pages = rest;
        memmove(c->p.ids, c->p.ids + cut,
                ((size_t)(c->p.len - c->p.from) - cut) * sizeof *c->p.ids);
        c->p.from = n->p.len;
        c->p.parent = n->p.key;
        count_bytes(p, c, true);
        unlink_from(c);
        link_to(n, c);
    }
}

static node *new_node(const ft_prefix *p, uint64_t salt, const node *parent, const int32_t *ids,
                      int len, const ft_seq *s)
{
    const int from = parent->p.len;
    const ft_kept_size size = pages_size(p, from, len);
    ft_blob *pages = ft_kept_new(&p->o, &size);
    ft_kept_copy k = {.o = &p->o, .b = pages, .save = true};
    if (!pages) return NULL;
    node *n = ft_new(node);
    n->p = (ft_point){.salt = salt,
                      .key = key_of(p, salt, ids, len),
                      .parent = key_of(p, salt, ids, from),
                      .from = from,
                      .len = len,
                      .pages = pages};
    n->p.ids = ft_new_n(int32_t, (size_t)(len - from));
    memcpy(n->p.ids, ids + from, sizeof *ids * (size_t)(len - from));
    ft_kept_pages(&k, s, FT_SPACE_FULL, from / FT_PAGE_ROWS, ft_point_pages_end(&p->s, len));
    return n;
}

/* Whether a checkpoint fits into the budget: its state and all pages up to it. */
static bool fits(const ft_prefix *p, const node *at, int len)
{
    const ft_kept_size pages = pages_size(p, 0, len), state = state_size(p, len);
    size_t nodes = sizeof(node) + sizeof(int32_t) * (size_t)len;
    for (; at->parent; at = at->parent) nodes += sizeof(node);
    for (int i = 0; i < p->o.n; i++)
        if (ft_kept_bytes(&p->o, &pages, i, false) + ft_kept_bytes(&p->o, &state, i, false) +
                (i ? 0 : nodes) >
            p->p.bytes)
            return false;
    return true;
}

bool ft_prefix_put(ft_prefix *p, uint64_t salt, const int32_t *ids, int len, const ft_seq *s,
                   const void *extra)
{
    if (!ft_seq_holds(s, len)) return false;
    node *at = deepest_of(p, salt, ids, len, false);
    const bool fresh = at->p.len != len;
    if (!fresh && at->has_state) {
        touch(p, at);
        return true;
    }
    if (!fits(p, at, len)) return false;
    ft_blob *state = state_of(p, len, s, extra);
    node *n = fresh && state ? new_node(p, salt, at, ids, len, s) : at;
    if (!state || !n) {
        ft_blob_drop(state);
        return false;
    }
    if (!fresh) count_bytes(p, n, false);
    n->p.state = state;
    n->has_state = true;
    if (fresh) {
        link_to(at, n);
        count_in(p, n);
        regroup(p, at, n);
    } else {
        count_bytes(p, n, true);
    }
    touch(p, n);
    n->on_disk = p->dir != NULL;
    if (p->dir && n->p.pages) ft_point_dir_write(p->dir, &n->p);
    make_room(p, n);
    return true;
}

/* ---- one sequence in a file ---- */

/* As it lies in the file, little-endian, without gaps. The ids follow, then the points. */
typedef struct slot_head {
    char magic[8];
    uint64_t digest, salt;
    uint32_t n_ids, n_points;
    uint64_t sum; /* of this with 0 here, and of the ids; points have their own */
} slot_head;

_Static_assert(sizeof(slot_head) == 40, "no gaps");

static const char slot_magic[8] = {'f', 't', 's', 'l', 'o', 't', '0', '3'};

static uint64_t slot_sum(slot_head h, const void *ids)
{
    h.sum = 0;
    return XXH3_64bits_withSeed(ids, sizeof(int32_t) * (size_t)h.n_ids, XXH3_64bits(&h, sizeof h));
}

static int above(const node *n)
{
    int k = 0;
    for (; n->parent; n = n->parent) k++;
    return k;
}

/* From the root down, each in the format of its own file. */
static ft_status put_chain(const ft_prefix *p, ft_out_file *o, const node *n, ft_err *err)
{
    if (!n->parent) return FT_OK;
    ft_status st = put_chain(p, o, n->parent, err);
    if (st) return st;
    const ft_kept_size pages = pages_size(p, n->p.from, n->p.len), state = state_size(p, n->p.len);
    ft_point whole = n->p;
    whole.pages = ft_kept_gather(&p->o, p->c, n->p.pages, &pages);
    whole.state = ft_kept_gather(&p->o, p->c, n->p.state, &state);
    if (!whole.pages || !whole.state != !n->p.state) {
        st = ft_fail(err, FT_ENOMEM, "no memory for a prefix of %d tokens", n->p.len);
    } else {
        const uint64_t bytes = ft_point_bytes(&whole);
        ft_out_write(o, &bytes, sizeof bytes);
        ft_point_put(o, &whole, &p->s);
    }
    ft_blob_drop(whole.pages);
    ft_blob_drop(whole.state);
    return st;
}

ft_status ft_prefix_save(ft_prefix *p, uint64_t salt, const int32_t *ids, int n, const char *path,
                         ft_err *err)
{
    node *last = deepest_of(p, salt, ids, n, true);
    while (last && !load_node(p, last)) last = deepest_of(p, salt, ids, n, true);
    ft_out_file *o;
    ft_status st = ft_out_open_private(&o, path, err);
    if (st) return st;
    slot_head h = {.digest = p->s.digest, .salt = salt, .n_ids = (uint32_t)n};
    h.n_points = last ? (uint32_t)above(last) : 0;
    memcpy(h.magic, slot_magic, sizeof slot_magic);
    h.sum = slot_sum(h, ids);
    ft_out_write(o, &h, sizeof h);
    ft_out_write(o, ids, sizeof *ids * (size_t)n);
    if (last) st = put_chain(p, o, last, err);
    if (!st) return ft_out_commit(o, err);
    ft_out_abort(o);
    return st;
}

/* One point of such a file into the tree, unless it is there. */
static ft_status take_point(ft_prefix *p, uint64_t salt, ft_cursor *c, ft_err *err)
{
    const uint64_t bytes = ft_cursor_u64(c);
    const void *at = bytes <= ft_cursor_left(c) ? ft_cursor_bytes(c, (size_t)bytes) : NULL;
    if (!at) return ft_fail(err, FT_EFORMAT, "file ends inside a prefix");
    ft_point pt;
    const ft_status st = ft_point_parse(&pt, at, (size_t)bytes, bytes, &p->s, true, err);
    if (st) return st;
    if (pt.salt != salt) {
        ft_point_release(&pt);
        return ft_fail(err, FT_EFORMAT, "a prefix of another key");
    }
    node *here = find_key(&p->root, pt.key);
    if (here && here->p.pages && (here->has_state || !pt.state)) {
        ft_point_release(&pt);
        return FT_OK;
    }
    node *n = adopt(p, &pt);
    if (!n) return ft_fail(err, FT_EFORMAT, "a prefix that begins nowhere");
    n->has_state = n->p.state != NULL;
    n->on_disk = p->dir != NULL;
    count_in(p, n);
    if (p->dir) ft_point_dir_write(p->dir, &n->p);
    return FT_OK;
}

/* The header and the ids; *ids is the caller's, NULL when it fails. */
static ft_status take_slot_head(const ft_prefix *p, uint64_t salt, ft_cursor *c, slot_head *h,
                                int32_t **ids, ft_err *err)
{
    const void *at = ft_cursor_bytes(c, sizeof *h);
    *ids = NULL;
    if (!at) return ft_fail(err, FT_EFORMAT, "not a saved slot");
    memcpy(h, at, sizeof *h);
    if (memcmp(h->magic, slot_magic, sizeof slot_magic))
        return ft_fail(err, FT_EFORMAT, "not a saved slot");
    if (h->digest != p->s.digest)
        return ft_fail(err, FT_EUNSUPPORTED, "saved by another model or cache");
    if (h->n_ids > (uint32_t)p->s.cells)
        return ft_fail(err, FT_ELIMIT, "%u tokens, want at most %d", h->n_ids, p->s.cells);
    at = ft_cursor_bytes(c, sizeof **ids * (size_t)h->n_ids);
    if (!at) return ft_fail(err, FT_EFORMAT, "file ends inside the tokens");
    *ids = ft_new_n(int32_t, (size_t)h->n_ids + 1);
    memcpy(*ids, at, sizeof **ids * (size_t)h->n_ids);
    if (slot_sum(*h, *ids) == h->sum && h->salt == salt) return FT_OK;
    const bool damaged = slot_sum(*h, *ids) != h->sum;
    ft_free(*ids);
    *ids = NULL;
    return damaged
               ? ft_fail(err, FT_EFORMAT, "a saved slot with a wrong checksum")
               : ft_fail(err, FT_EUNSUPPORTED, "saved for another API key, or with other adapters");
}

ft_status ft_prefix_load(ft_prefix *p, uint64_t salt, const char *path, int32_t **ids, int *n,
                         ft_err *err)
{
    ft_map map;
    slot_head h;
    *ids = NULL;
    ft_status st = ft_map_open_private(&map, path, err);
    if (st) return st;
    ft_cursor c = ft_cursor_over(map.data, map.bytes);
    st = take_slot_head(p, salt, &c, &h, ids, err);
    for (uint32_t i = 0; !st && i < h.n_points; i++) st = take_point(p, salt, &c, err);
    if (!st && ft_cursor_left(&c))
        st = ft_fail(err, FT_EFORMAT, "%zu bytes behind the end of a saved slot",
                     ft_cursor_left(&c));
    if (!st) *n = (int)h.n_ids;
    make_room(p, NULL);
    ft_map_close(&map);
    if (st) {
        ft_err_prefix(err, "%s", path);
        ft_free(*ids);
        *ids = NULL;
    }
    return st;
}
