/* tests/invariants/images.c - a prompt with images gives the same ids however it is cut into
 * chunks, with and without drafting, beside other sequences, and when its beginning was read
 * before; and other images give other ids, whatever else the prompts have in common. */
#include "invariants.h"

enum { PROMPT = 200, TOKENS = 16, SLOTS = 2 };

typedef struct scene {
    const inv_model *m;
    bool by_axis, ahead;
    int32_t id[PROMPT];
    ft_task_image image[2];
    float *data[2];
} scene;

/* Two images in random text; `key` tells those of one scene from those of another. */
static scene scene_new(const inv_model *m, bool by_axis, bool ahead, uint64_t key)
{
    static const int first[2] = {30, 101}, rows[2] = {6, 3}, cols[2] = {5, 17};
    const int D = m->m->D;
    scene s = {.m = m, .by_axis = by_axis, .ahead = ahead};
    inv_prompt(s.id, PROMPT, m->m->V, 11);
    for (int k = 0; k < 2; k++) {
        const int n = rows[k] * cols[k];
        ft_rng r = {key + (uint64_t)k};
        s.data[k] = ft_new_n(float, (size_t)(n * D));
        for (int i = 0; i < n * D; i++) s.data[k][i] = (float)ft_rng_normal(&r);
        for (int i = 0; i < n; i++) s.id[first[k] + i] = ft_image_id(key + (uint64_t)k, i);
        s.image[k] = (ft_task_image){first[k], rows[k], cols[k], s.data[k]};
    }
    return s;
}

static void scene_free(scene *s)
{
    for (int k = 0; k < 2; k++) ft_free(s->data[k]);
}

static ft_task task(const scene *s, int k)
{
    ft_task j = inv_job(TOKENS, k);
    j.image = s->image;
    j.n_image = 2;
    j.images_by_axis = s->by_axis;
    j.images_ahead = s->ahead;
    j.cache_prompt = true;
    return j;
}

static ft_engine_params params(int rows, int k)
{
    ft_engine_params p = inv_params(k);
    p.rows = rows;
    p.slots = SLOTS;
    return p;
}

/* A response that runs beside one to another prompt. */
static void beside(inv_response *r, const scene *s, const ft_engine_params *p, const ft_task *j)
{
    static inv_response other;
    int32_t id[90];
    ft_engine *e = inv_engine(s->m, p);
    ft_slot *a = ft_slot_new(e), *b = ft_slot_new(e);
    const ft_task plain = inv_job(TOKENS, j->draft_max);
    inv_prompt(id, 90, s->m->m->V, 5);
    inv_start(&other, a, &plain, id, 90);
    ft_engine_step(e);
    inv_start(r, b, j, s->id, PROMPT);
    while (ft_slot_busy(a) || ft_slot_busy(b)) ft_engine_step(e);
    inv_done(r);
    ft_engine_free(e);
}

static void same_ids(const scene *s)
{
    static inv_response truth, r;
    const ft_engine_params whole = params(256, 0);
    const ft_task plain = task(s, 0);
    inv_response_alone(&truth, s->m, &whole, &plain, s->id, PROMPT);
    for (int rows = 64; rows <= 256; rows *= 2)
        for (int k = 0; k <= 3; k += 3) {
            const ft_engine_params p = params(rows, k);
            const ft_task j = task(s, k);
            inv_response_alone(&r, s->m, &p, &j, s->id, PROMPT);
            check(inv_same(&r, &truth), "%s: steps of %d rows, %d drafts: parted at %d", s->m->name,
                  rows, k, inv_first_difference(&r, &truth));
            beside(&r, s, &p, &j);
            check(inv_same(&r, &truth),
                  "%s: steps of %d rows, %d drafts, beside another: parted "
                  "at %d",
                  s->m->name, rows, k, inv_first_difference(&r, &truth));
        }
}

/* The prompt again, and one that differs in its second image alone. */
static void shared(const scene *s, const scene *other, int k)
{
    static inv_response cold[2], r;
    const ft_engine_params p = params(128, k);
    ft_err err;
    scene mixed = *s;
    mixed.image[1] = other->image[1];
    memcpy(mixed.id + 101, other->id + 101, sizeof *mixed.id * 51);
    const ft_task j = task(s, k), m = task(&mixed, k);
    inv_response_alone(&cold[0], s->m, &p, &j, s->id, PROMPT);
    inv_response_alone(&cold[1], s->m, &p, &m, mixed.id, PROMPT);
    check(!inv_same(&cold[0], &cold[1]), "%s: another image, the same ids", s->m->name);
    ft_engine *e = inv_engine(s->m, &p);
    if (ft_engine_share(e, 1 << 28, NULL, &err)) check(false, "%s", err.text);
    ft_slot *one = ft_slot_new(e), *two = ft_slot_new(e);
    inv_response_on(&r, one, &j, s->id, PROMPT);
    check(inv_same(&r, &cold[0]), "%s: keeping a prompt with images changes it", s->m->name);
    inv_response_on(&r, two, &j, s->id, PROMPT);
    check(inv_same(&r, &cold[0]) && r.stats.cached_n > 0,
          "%s, %d drafts: a prompt with images, found again: %d cached, parted at %d", s->m->name,
          k, r.stats.cached_n, inv_first_difference(&r, &cold[0]));
    inv_response_on(&r, two, &m, mixed.id, PROMPT);
    check(inv_same(&r, &cold[1]) && r.stats.cached_n <= 101,
          "%s, %d drafts: with another image %d are cached, parted at %d", s->m->name, k,
          r.stats.cached_n, inv_first_difference(&r, &cold[1]));
    ft_slot_free(one);
    ft_slot_free(two);
    ft_engine_free(e);
}

enum { PIECES = 5 };

/* Encoding that takes PIECES calls, or fails in the last. */
typedef struct encoder {
    ft_task_image *image;
    float *const *data;
    int calls, from;
    bool fails;
} encoder;

static ft_status encode(void *user, int from, double seconds, bool *done, ft_err *err)
{
    encoder *c = user;
    check(seconds >= 0, "%g seconds to encode an image", seconds);
    c->from = from;
    if (++c->calls < PIECES) return FT_OK;
    if (c->fails) return ft_fail(err, FT_ENOMEM, "no memory for this image");
    for (int i = 0; i < 2; i++) c->image[i].data = c->data[i];
    *done = true;
    return FT_OK;
}

/* Images that are encoded between steps of another response: both have the ids that they have
 * alone, and the other one goes on meanwhile, also when encoding fails. */
static void between(const scene *s, int k)
{
    static inv_response truth, alone, r, other;
    int32_t id[90];
    const ft_engine_params p = params(128, k);
    const ft_task whole = task(s, k), plain = inv_job(TOKENS, k);
    inv_prompt(id, 90, s->m->m->V, 5);
    inv_response_alone(&truth, s->m, &p, &whole, s->id, PROMPT);
    inv_response_alone(&alone, s->m, &p, &plain, id, 90);
    for (int fails = 0; fails < 2; fails++) {
        ft_task_image image[2] = {s->image[0], s->image[1]};
        image[0].data = image[1].data = NULL;
        encoder c = {.image = image, .data = s->data, .fails = fails};
        ft_engine *e = inv_engine(s->m, &p);
        ft_slot *a = ft_slot_new(e), *b = ft_slot_new(e);
        ft_task j = whole;
        j.image = image;
        j.prepare = encode;
        j.prepare_user = &c;
        ft_engine_limit_step(e, 50);
        inv_start(&other, a, &plain, id, 90);
        while (other.n == 90) ft_engine_step(e);
        inv_start(&r, b, &j, s->id, PROMPT);
        const int before = other.n;
        while (c.calls < PIECES) ft_engine_step(e);
        check(other.n >= before + PIECES - 1 || !ft_slot_busy(a),
              "%s: %d tokens of another response while an image was encoded in %d pieces",
              s->m->name, other.n - before, PIECES);
        check(c.from == 0, "%s: images behind token %d of a new prompt", s->m->name, c.from);
        while (ft_slot_busy(a) || ft_slot_busy(b)) ft_engine_step(e);
        check(inv_same(&other, &alone), "%s: beside an image that is encoded: parted at %d",
              s->m->name, inv_first_difference(&other, &alone));
        if (fails)
            check(ft_slot_finish(b) == FT_FINISH_ERROR && strstr(ft_slot_error(b), "no memory"),
                  "%s: encoding failed, and the response says \"%s\"", s->m->name,
                  ft_slot_error(b));
        else
            check(inv_same(&r, &truth), "%s: encoded between steps: parted at %d", s->m->name,
                  inv_first_difference(&r, &truth));
        ft_engine_free(e);
    }
}

/* Images that are read in one step must fit into one. */
static void refused(const scene *s)
{
    ft_err err;
    const ft_engine_params p = params(64, 0);
    scene big = *s;
    big.image[1].cols = 25; /* 75 tokens */
    ft_task j = task(&big, 0);
    ft_engine *e = inv_engine(s->m, &p);
    j.prompt = big.id;
    j.n_prompt = PROMPT;
    for (int i = 0; i < 75; i++) big.id[101 + i] = ft_image_id(1, i);
    check(ft_task_check(e, &j, &err) == (s->ahead ? FT_EINVAL : FT_OK),
          "%s: an image of 75 tokens in steps of 64", s->m->name);
    j.n_image = 0;
    check(ft_task_check(e, &j, &err) == FT_EINVAL, "%s: ids of images without images", s->m->name);
    ft_engine_free(e);
}

static void all(const char *name, const char *assistant, bool by_axis, bool ahead)
{
    inv_model m = inv_model_golden(name, assistant, 2);
    scene s = scene_new(&m, by_axis, ahead, 1000), other = scene_new(&m, by_axis, ahead, 2000);
    same_ids(&s);
    shared(&s, &other, 0);
    shared(&s, &other, 3);
    between(&s, 0);
    between(&s, 3);
    refused(&s);
    scene_free(&s);
    scene_free(&other);
    inv_model_close(&m);
}

int main(int argc, char **argv)
{
    if (inv_wanted(argc, argv, "qwen35-gqa")) all("qwen35-gqa", NULL, true, false);
    if (inv_wanted(argc, argv, "gemma4-dense"))
        all("gemma4-dense", "gemma4-dense-assistant", false, true);
    if (inv_wanted(argc, argv, "gemma4-edge"))
        all("gemma4-edge", "gemma4-edge-assistant", false, false);
    return inv_end();
}
