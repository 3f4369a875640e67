/* tests/invariants/prefix.c - prefix sharing changes no bit: a prompt that continues from positions
 * computed by another slot gives the ids, the draft tokens and the acceptance of one evaluated from
 * the start; also after a restart, and when the files are damaged or removed. */
#define _GNU_SOURCE
#include "engine/queue.h"
#include "folder.h"
#include "invariants.h"
#include "kv/save.h"
#include "late_copies.h"

#include <dirent.h>
#include <sys/stat.h>

enum { FIRST = 205, MARK = 150, SECOND = 240, TOKENS = 20, CTX = 512, SLOTS = 2 };

static ft_engine_params params(int k, ft_kv_type t)
{
    ft_engine_params p = inv_params(k);
    p.slots = SLOTS;
    p.ctx = CTX;
    p.kt = p.vt = t;
    return p;
}

static ft_task task(int k)
{
    ft_task j = inv_job(TOKENS, k);
    j.cache_prompt = true;
    j.checkpoint[0] = MARK;
    j.n_checkpoint = 1;
    return j;
}

/* Two conversations that differ from the checkpoint on. */
static void prompts(int32_t *a, int32_t *b, int V)
{
    inv_prompt(a, FIRST, V, 3);
    inv_prompt(b, SECOND, V, 4);
    memcpy(b, a, sizeof *a * MARK);
}

static ft_engine *sharing(const inv_model *m, const ft_engine_params *p, uint64_t bytes,
                          const char *dir)
{
    ft_engine *e = inv_engine(m, p);
    ft_err err;
    if (!ft_engine_share(e, bytes, dir, &err)) return e;
    printf("%s\n", err.text);
    exit(1);
}

static bool same_work(const inv_response *a, const inv_response *b)
{
    return inv_same(a, b) && a->stats.drafted == b->stats.drafted &&
           a->stats.accepted == b->stats.accepted;
}

static void check_shared(const inv_model *m, int k, ft_kv_type t, const char *dir)
{
    const ft_engine_params p = params(k, t);
    const ft_task j = task(k);
    static inv_response cold[2], warm;
    int32_t a[FIRST], b[SECOND];
    prompts(a, b, m->m->V);
    inv_response_alone(&cold[0], m, &p, &j, a, FIRST);
    inv_response_alone(&cold[1], m, &p, &j, b, SECOND);

    ft_engine *e = sharing(m, &p, 1 << 30, dir);
    ft_slot *one = ft_slot_new(e), *two = ft_slot_new(e);
    inv_response_on(&warm, one, &j, a, FIRST);
    check(same_work(&warm, &cold[0]), "%s, %d drafts: storing a prefix changes the response",
          m->name, k);
    check(dir || warm.stats.cached_n == 0, "%s: cached tokens in an empty cache", m->name);
    inv_response_on(&warm, two, &j, b, SECOND);
    check(same_work(&warm, &cold[1]),
          "%s, %d drafts: continuing from the prefix of another prompt changes a response at %d "
          "(%d of %d drafts, "
          "want %d of %d)",
          m->name, k, inv_first_difference(&warm, &cold[1]), (int)warm.stats.accepted,
          (int)warm.stats.drafted, (int)cold[1].stats.accepted, (int)cold[1].stats.drafted);
    check(warm.stats.cached_n == MARK / 64 * 64, "%s: %d cached tokens, want %d", m->name,
          warm.stats.cached_n, MARK / 64 * 64);
    /* The same prompt again, on a slot that held another one, and with a longer end. */
    inv_response_on(&warm, one, &j, b, SECOND);
    check(same_work(&warm, &cold[1]) && warm.stats.cached_n >= MARK / 64 * 64,
          "%s: the same prompt again", m->name);
    ft_prefix_counts n;
    ft_prefix_count(e->prefix, &n);
    check(e->reuse_hits >= 1 && n.points >= 1 && n.bytes > 0, "%s: counts of the prefix cache",
          m->name);
    ft_slot_free(one);
    ft_slot_free(two);
    ft_engine_free(e);
}

/* Copies the cached key and value of a position of the draft head; returns their bytes. */
static size_t head_cell(const ft_slot *s, int c, unsigned char *out)
{
    const ft_cache *cache = s->e->cache;
    const ft_kv *kv = &ft_cache_kv(cache)[s->e->m->L];
    const int32_t *table =
        ft_cache_pages(cache, kv->space) + ft_seq_slot(s->seq) * ft_cache_pages_per_seq(cache);
    const size_t page = (size_t)table[c / FT_PAGE_ROWS], row = (size_t)(c % FT_PAGE_ROWS);
    ft_dev *d = s->e->m->dev;
    d->download(d, out, kv->k + page * kv->k_page + row * kv->k_row, kv->k_row);
    d->download(d, out + kv->k_row, kv->v + page * kv->v_page + row * kv->v_row, kv->v_row);
    return kv->k_row + kv->v_row;
}

static bool same_cell(const ft_slot *a, const ft_slot *b, int c)
{
    static unsigned char cell[2][1 << 16];
    const size_t n = head_cell(a, c, cell[0]);
    return n == head_cell(b, c, cell[1]) && !memcmp(cell[0], cell[1], n);
}

/* A head that continues from a checkpoint has the same cached positions as one that processed the
 * whole prompt, also at the position after the checkpoint, which it writes before the model has
 * rows there. The acceptance rate alone would not show a difference. */
static void head_cells(const inv_model *m)
{
    const char *on = getenv("FT_TEST_DEV");
    if (m->m->drafter != FT_DRAFT_MTP || (on && !strcmp(on, "mpi"))) return; /* reads the memory */
    const ft_engine_params p = params(3, FT_KV_F32);
    const ft_task j = task(3);
    static inv_response r;
    int32_t a[FIRST], b[SECOND];
    prompts(a, b, m->m->V);
    ft_engine *e = sharing(m, &p, 1 << 30, NULL), *alone = inv_engine(m, &p);
    ft_slot *first = ft_slot_new(e), *s = ft_slot_new(e), *cold = ft_slot_new(alone);
    inv_response_on(&r, first, &j, a, FIRST);
    inv_response_on(&r, s, &j, b, SECOND);
    check(r.stats.cached_n > 0, "%s: no cached tokens", m->name);
    inv_response_on(&r, cold, &j, b, SECOND);
    check(s->head.fed >= cold->head.fed, "%s: the head has processed %d positions, want %d or more",
          m->name, s->head.fed, cold->head.fed);
    for (int c = 1; c < FT_MIN(s->head.fed, cold->head.fed); c++)
        if (!same_cell(s, cold, c)) check(false, "%s: position %d of the head differs", m->name, c);
    ft_engine_free(e);
    ft_engine_free(alone);
}

/* Responses that end at every position around a page boundary: the next turn, which includes the
 * response, equals that of a new engine. The task does not tell which part was generated: hybrid
 * models must not use their rows of it. Few pages force slots to drop cached positions. */
static void next_turns(const inv_model *m, int k)
{
    ft_engine_params p = params(k, FT_KV_F16);
    static inv_response warm, cold;
    int32_t ids[CTX];
    ft_task j = task(k);
    p.cells = 64 * 4;
    inv_prompt(ids, CTX, m->m->V, 5);
    ft_engine *e = sharing(m, &p, 1 << 30, NULL);
    ft_slot *s[SLOTS] = {ft_slot_new(e), ft_slot_new(e)};
    p.cells = 0;
    for (int at = 125; at <= 131; at += 2) {
        j.max_tokens = at - 100;
        j.n_checkpoint = 0;
        inv_response_on(&warm, s[at / 2 % 2], &j, ids, 100);
        memcpy(ids + 100, warm.id + 100, sizeof *ids * (size_t)(warm.n - 100));
        j.max_tokens = 8;
        inv_response_on(&warm, s[at % 2], &j, ids, at + 30);
        inv_response_alone(&cold, m, &p, &j, ids, at + 30);
        check(same_work(&warm, &cold), "%s, %d drafts: the turn after %d positions differs at %d",
              m->name, k, at, inv_first_difference(&warm, &cold));
    }
    ft_engine_free(e);
}

/* ---- conversations ---- */

typedef struct talk {
    int32_t id[CTX];
    int n;
    ft_task_range response[8];
    int n_response;
} talk;

static void add_message(talk *t, int V, int n, uint64_t seed)
{
    inv_prompt(t->id + t->n, n, V, seed);
    t->n += n;
}

static void add_response(talk *t, const inv_response *r)
{
    t->response[t->n_response++] = (ft_task_range){r->n_prompt, r->n};
    memcpy(t->id + r->n_prompt, r->id + r->n_prompt, sizeof *t->id * (size_t)(r->n - r->n_prompt));
    t->n = r->n;
}

/* One turn: the response of the warm slot equals that of a new engine, and all but the new message
 * and the last tokens of the response before it was in the cache. */
static void turn(const inv_model *m, const ft_engine_params *p, ft_slot *s, ft_task j, talk *t,
                 int new_ids, const char *what)
{
    static inv_response warm, cold;
    j.response = t->response;
    j.n_response = t->n_response;
    inv_response_on(&warm, s, &j, t->id, t->n);
    inv_response_alone(&cold, m, p, &j, t->id, t->n);
    check(same_work(&warm, &cold),
          "%s, %d drafts, %s, turn %d: differs at %d (%d of %d accepted, want %d of %d)", m->name,
          p->draft_max, what, t->n_response, inv_first_difference(&warm, &cold),
          (int)warm.stats.accepted, (int)warm.stats.drafted, (int)cold.stats.accepted,
          (int)cold.stats.drafted);
    if (t->n_response)
        check(warm.stats.cached_n >= t->n - new_ids - 64,
              "%s, %d drafts, %s, turn %d: %d of %d tokens cached, the message has %d", m->name,
              p->draft_max, what, t->n_response, warm.stats.cached_n, t->n, new_ids);
    add_response(t, &warm);
}

/* Five turns on the same slot, or on slots that served another conversation in between. */
static void conversation(const inv_model *m, int k, ft_kv_type kv, bool alternate, const char *dir)
{
    static const int message[] = {70, 13, 30, 5, 41}, length[] = {67, 30, 21, 80, 9};
    const ft_engine_params p = params(k, kv);
    const char *what = dir ? "restarted" : alternate ? "another slot" : "the same slot";
    static talk one, other;
    one = other = (talk){.n = 0};
    ft_task j = task(k);
    j.n_checkpoint = 0;
    ft_engine *e = sharing(m, &p, 1 << 30, dir);
    ft_slot *s[SLOTS] = {ft_slot_new(e), ft_slot_new(e)};
    for (int i = 0; i < (int)FT_COUNT(message); i++) {
        j.max_tokens = length[i];
        add_message(&one, m->m->V, message[i], (uint64_t)(20 + i));
        turn(m, &p, s[i % SLOTS * alternate], j, &one, message[i], what);
        if (alternate) {
            j.max_tokens = length[4 - i];
            add_message(&other, m->m->V, message[i], (uint64_t)(40 + i));
            turn(m, &p, s[i % SLOTS], j, &other, message[i], what);
        }
        if (!dir) continue;
        ft_engine_free(e);
        e = sharing(m, &p, 1 << 30, dir);
        s[0] = ft_slot_new(e);
    }
    ft_engine_free(e);
}

static void conversations(const inv_model *m)
{
    char dir[64];
    conversation(m, 0, FT_KV_F16, false, NULL);
    conversation(m, 3, FT_KV_F16, false, NULL);
    conversation(m, 0, FT_KV_F16, true, NULL);
    conversation(m, 3, FT_KV_TURBO3, true, NULL);
    folder_new(dir);
    conversation(m, 2, FT_KV_F16, false, dir);
    if (folder_free(dir)) perror(dir);
}

/* A response that is saved before a token: a later prompt that writes what follows differently
 * finds the part before it. */
static void before_token(const inv_model *m, int k)
{
    const ft_engine_params p = params(k, FT_KV_F16);
    static inv_response first, warm, cold;
    int32_t ids[CTX];
    ft_task j = task(k);
    j.n_checkpoint = 0;
    j.max_tokens = 120;
    inv_prompt(ids, CTX, m->m->V, 6);
    inv_response_alone(&first, m, &p, &j, ids, 50);
    /* a token that first occurs well inside the response */
    int at = 50 + 80;
    for (int i = 50; i < at && at < first.n; i++)
        if (first.id[i] == first.id[at]) i = 49, at++;
    if (at + 8 >= first.n) return;
    j.checkpoint_id = first.id[at];
    ft_engine *e = sharing(m, &p, 1 << 30, NULL);
    inv_response_on(&warm, ft_slot_new(e), &j, ids, 50);
    check(same_work(&warm, &first), "%s, %d drafts: saving before a token changes the response",
          m->name, k);
    memcpy(ids, first.id, sizeof *ids * (size_t)at);
    const ft_task_range range = {50, at};
    j.response = &range;
    j.n_response = 1;
    j.max_tokens = 8;
    inv_response_on(&warm, ft_slot_new(e), &j, ids, at + 30);
    inv_response_alone(&cold, m, &p, &j, ids, at + 30);
    check(same_work(&warm, &cold), "%s, %d drafts: resuming before a token differs at %d", m->name,
          k, inv_first_difference(&warm, &cold));
    check(warm.stats.cached_n >= at - 16, "%s, %d drafts: %d tokens cached, want %d or more",
          m->name, k, warm.stats.cached_n, at - 16);
    ft_engine_free(e);
}

/* A request can disable prefix sharing. */
static void check_disabled(const inv_model *m)
{
    const ft_engine_params p = params(0, FT_KV_F32);
    ft_task j = task(0);
    static inv_response r;
    int32_t a[FIRST], b[SECOND];
    prompts(a, b, m->m->V);
    ft_engine *e = sharing(m, &p, 1 << 30, NULL);
    ft_slot *s = ft_slot_new(e);
    j.cache_prompt = false;
    inv_response_on(&r, s, &j, a, FIRST);
    ft_prefix_counts n;
    ft_prefix_count(e->prefix, &n);
    check(n.points == 0, "%s: the prefix of a request without sharing was stored", m->name);
    inv_response_on(&r, s, &j, a, FIRST);
    check(r.stats.cached_n == 0, "%s: a request without sharing used %d cached tokens", m->name,
          r.stats.cached_n);
    ft_engine_free(e);
}

/* Conversations of many turns in little memory: the budget holds, and the ids stay the same. */
static void check_small_budget(const inv_model *m, uint64_t points)
{
    const ft_engine_params p = params(2, FT_KV_F16);
    ft_task j = task(2);
    static inv_response cold, warm;
    int32_t ids[CTX];
    j.max_tokens = 4;
    ft_engine *e = sharing(m, &p, 1 << 30, NULL);
    ft_slot *s = ft_slot_new(e);
    inv_prompt(ids, CTX, m->m->V, 9);
    j.checkpoint[0] = 128;
    inv_response_on(&warm, s, &j, ids, 130);
    ft_prefix_counts n;
    ft_prefix_count(e->prefix, &n);
    const uint64_t budget = points * n.bytes;
    ft_engine_free(e);
    e = sharing(m, &p, budget, NULL);
    s = ft_slot_new(e);
    for (int i = 0; i < 8; i++) {
        const int len = 70 + i * 53 % 300;
        inv_prompt(ids + 64, CTX - 64, m->m->V, (uint64_t)(i % 5));
        j.checkpoint[0] = len - 3;
        inv_response_on(&warm, s, &j, ids, len);
        inv_response_alone(&cold, m, &p, &j, ids, len);
        check(same_work(&warm, &cold), "%s, memory for %d checkpoints: turn %d differs", m->name,
              (int)points, i);
        ft_prefix_count(e->prefix, &n);
        check(n.bytes <= budget, "%s: %llu bytes stored, want at most %llu", m->name,
              (unsigned long long)n.bytes, (unsigned long long)budget);
    }
    ft_engine_free(e);
}

/* ---- files ---- */

static void each_file(const char *dir, void (*fn)(const char *path, int i))
{
    char path[1024], inner[600];
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));) {
        if (e->d_name[0] == '.') continue;
        snprintf(inner, sizeof inner, "%s/%s", dir, e->d_name);
        DIR *sub = opendir(inner);
        int i = 0;
        for (struct dirent *f; sub && (f = readdir(sub));) {
            if (f->d_name[0] == '.') continue;
            snprintf(path, sizeof path, "%s/%s", inner, f->d_name);
            fn(path, i++);
        }
        if (sub) closedir(sub);
    }
    if (d) closedir(d);
}

static int n_files;

static void count_file(const char *path, int i)
{
    (void)path, (void)i;
    n_files++;
}

static void damage(const char *path, int i)
{
    FILE *f = fopen(path, "r+b");
    struct stat st;
    if (!f || fstat(fileno(f), &st)) return;
    if (i % 3 == 0) {
        if (ftruncate(fileno(f), st.st_size / 2)) puts("ftruncate");
    } else {
        fseek(f, i % 3 == 1 ? 40 : (long)st.st_size - 1, SEEK_SET);
        const int c = fgetc(f);
        fseek(f, -1, SEEK_CUR);
        fputc(c ^ 0x55, f);
    }
    fclose(f);
}

static void remove_file(const char *path, int i)
{
    (void)i;
    unlink(path);
}

static int found_again(const inv_model *m, int k, const char *dir, const inv_response *cold)
{
    const ft_engine_params p = params(k, FT_KV_F16);
    const ft_task j = task(k);
    static inv_response warm;
    int32_t a[FIRST], b[SECOND];
    prompts(a, b, m->m->V);
    ft_engine *e = sharing(m, &p, 1 << 30, dir);
    inv_response_on(&warm, ft_slot_new(e), &j, b, SECOND);
    ft_engine_free(e);
    check(same_work(&warm, cold), "%s: a response after a restart differs at %d", m->name,
          inv_first_difference(&warm, cold));
    return warm.stats.cached_n;
}

static void check_restart(const inv_model *m, int k)
{
    char dir[64];
    const ft_engine_params p = params(k, FT_KV_F16);
    const ft_task j = task(k);
    static inv_response cold;
    int32_t a[FIRST], b[SECOND];
    prompts(a, b, m->m->V);
    inv_response_alone(&cold, m, &p, &j, b, SECOND);
    folder_new(dir);
    check_shared(m, k, FT_KV_F16, dir);
    n_files = 0;
    each_file(dir, count_file);
    check(n_files >= 1, "%s: no file was written", m->name);
    const int found = found_again(m, k, dir, &cold);
    check(found >= MARK / 64 * 64, "%s: %d cached tokens after a restart", m->name, found);
    /* Another KV cache type or another model does not use them. */
    check_shared(m, k, FT_KV_Q8_0, dir);
    each_file(dir, damage);
    check(found_again(m, k, dir, &cold) >= 0, "%s: failed on damaged files", m->name);
    each_file(dir, remove_file);
    check(found_again(m, k, dir, &cold) == 0, "%s: cached tokens from an empty folder", m->name);
    if (folder_free(dir)) perror(dir);
}

/* ---- copies in the background ---- */

/* Checkpoints whose bytes arrive after they are used, evicted or written, or never. */
static void late_checkpoints(const inv_model *m)
{
    const ft_engine_params p = params(2, FT_KV_F16);
    const ft_task j = task(2);
    ft_dev *d = m->m->dev;
    void (*const save_list)(ft_dev *, const ft_copy *, size_t, ft_copying *) = d->save_list;
    static inv_response cold, warm;
    int32_t a[FIRST], b[SECOND];
    prompts(a, b, m->m->V);
    inv_response_alone(&cold, m, &p, &j, b, SECOND);
    d->save_list = late_save;
    check_shared(m, 2, FT_KV_F16, NULL);
    conversation(m, 3, FT_KV_F16, true, NULL);
    next_turns(m, 3);
    check_small_budget(m, 1);
    check_small_budget(m, 3);
    check_restart(m, 2);
    late_fail = true;
    late_n = 0;
    ft_engine *e = sharing(m, &p, 1 << 30, NULL);
    inv_response_on(&warm, ft_slot_new(e), &j, a, FIRST);
    check(late_n > 0, "%s: no copy in the background", m->name);
    late_fail = false;
    inv_response_on(&warm, ft_slot_new(e), &j, b, SECOND);
    check(same_work(&warm, &cold) && warm.stats.cached_n == 0,
          "%s: %d tokens of a checkpoint that was not copied were used", m->name,
          warm.stats.cached_n);
    ft_engine_free(e);
    d->save_list = save_list;
}

/* A folder that cannot be created. */
static void no_folder(const inv_model *m)
{
    const ft_engine_params p = params(0, FT_KV_F32);
    ft_engine *e = inv_engine(m, &p);
    ft_err err;
    check(ft_engine_share(e, 1 << 20, "/proc/nothing/here", &err) == FT_EIO,
          "a folder in /proc was accepted");
    ft_engine_free(e);
}

int main(int argc, char **argv)
{
    static const char *const model[][2] = {
        {"qwen35-dense", NULL},
        {"qwen35-gqa", NULL},
        {"qwen35-moe", NULL},
        {"gemma4-dense", "gemma4-dense-assistant"},
        {"gemma4-gqa", "gemma4-gqa-assistant"},
        {"gemma4-edge", "gemma4-edge-assistant"},
        {"gemma4-moe", NULL},
    };
    for (size_t i = 0; i < FT_COUNT(model); i++) {
        if (!inv_wanted(argc, argv, model[i][0])) continue;
        inv_model m = inv_model_golden(model[i][0], model[i][1], 1);
        check_shared(&m, 3, FT_KV_F16, NULL);
        head_cells(&m);
        conversation(&m, 3, FT_KV_F16, true, NULL);
        before_token(&m, i % 2 ? 0 : 3);
        if (i == 0 || i == 4) {
            check_shared(&m, 0, FT_KV_F32, NULL);
            check_shared(&m, 3, FT_KV_TURBO4, NULL);
            check_disabled(&m);
            conversations(&m);
            next_turns(&m, 0);
            next_turns(&m, 3);
            check_small_budget(&m, 1);
            check_small_budget(&m, 3);
            check_restart(&m, 2);
            no_folder(&m);
            late_checkpoints(&m);
        }
        inv_model_close(&m);
    }
    return inv_end();
}
