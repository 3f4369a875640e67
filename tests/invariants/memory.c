/* tests/invariants/memory.c - device memory: allocations are zeroed and disjoint, and keep their
 * contents while others are allocated and freed; the same for models. */
#define _XOPEN_SOURCE 700
#include "invariants.h"

enum { PIECES = 9, ALIGN = 64 };

/* Small and odd sizes, and one larger than a memory block of any device. */
static const size_t bytes_of[PIECES] = {0,         1,        255, 256, 5120, (3u << 20) + 1,
                                        70u << 20, 2u << 20, 7};

static unsigned char *there, *host; /* as many bytes as the largest allocation */

static unsigned char pattern(int piece, size_t i)
{
    return (unsigned char)((i * 2654435761u >> 13) + (size_t)piece * 37 + 1);
}

static bool holds(ft_dev *d, const void *p, int piece, int as)
{
    const size_t n = bytes_of[piece];
    for (size_t i = 0; i < n; i++) there[i] = as < 0 ? 0 : pattern(as, i);
    memset(host, 0x55, n);
    d->download(d, host, p, n);
    return !memcmp(there, host, n);
}

static void put_pattern(ft_dev *d, void *p, int piece)
{
    for (size_t i = 0; i < bytes_of[piece]; i++) host[i] = pattern(piece, i);
    d->upload(d, p, host, bytes_of[piece]);
}

static void *take_piece(ft_dev *d, int piece)
{
    void *p = d->alloc(d, bytes_of[piece]);
    check(p && (uintptr_t)p % ALIGN == 0, "piece %d is at %p", piece, p);
    check(p && holds(d, p, piece, -1), "piece %d is not zero", piece);
    if (p) put_pattern(d, p, piece);
    return p;
}

static void pieces(ft_dev *d)
{
    void *p[PIECES];
    for (int i = 0; i < PIECES; i++) p[i] = take_piece(d, i);
    for (int i = 0; i < PIECES; i++) check(holds(d, p[i], i, i), "piece %d was changed", i);
    for (int i = 0; i < PIECES; i += 2) d->free(d, p[i]);
    for (int i = 0; i < PIECES; i += 2) p[i] = take_piece(d, i);
    for (int i = 0; i < PIECES; i++) check(holds(d, p[i], i, i), "piece %d was changed later", i);
    d->move(d, p[7], p[6], bytes_of[7]);
    check(holds(d, p[7], 7, 6), "a copy from another allocation failed");
    for (int i = PIECES; i--;) d->free(d, p[i]);
    check(!d->sync(d, NULL), "the device failed");
}

/* A failed allocation is not a device fault: the device continues to work. */
static void too_much(ft_dev *d)
{
    if (d->unified) return; /* the system may overcommit */
    check(!d->alloc(d, SIZE_MAX / 4), "an allocation larger than the memory succeeded");
    pieces(d);
}

static void greedy_response(inv_response *r, ft_model *m, const char *name)
{
    const inv_model one = {.name = name, .dev = m->dev, .m = m};
    const ft_engine_params p = inv_params(3);
    const ft_task j = inv_job(24, 3);
    int32_t ids[40];
    inv_prompt(ids, 40, m->V, 5);
    inv_response_alone(r, &one, &p, &j, ids, 40);
}

/* Two models on one device: one stays while the other is loaded and freed, and its memory reused.
 */
static void models(ft_dev *d)
{
    static inv_response first, again;
    ft_model *stays = inv_golden("qwen35-dense", d, NULL);
    greedy_response(&first, stays, "qwen35-dense");
    for (int i = 0; i < 3; i++) {
        const char *name = i % 2 ? "gemma4-dense" : "qwen35-moe";
        ft_model *m = inv_golden(name, d, NULL);
        greedy_response(&again, m, name);
        if (i == 1) ft_model_close(m);
        greedy_response(&again, stays, "qwen35-dense");
        check(inv_same(&first, &again), "%s beside %s: different id at %d", "qwen35-dense", name,
              inv_first_difference(&first, &again));
        if (i != 1) ft_model_close(m);
    }
    ft_model_close(stays);
}

int main(void)
{
    there = ft_alloc(bytes_of[6]);
    host = ft_alloc(bytes_of[6]);
    ft_dev *d = inv_dev(1);
    pieces(d);
    too_much(d);
    models(d);
    pieces(d);
    ft_dev_close(d);
    ft_free(there);
    ft_free(host);
    return inv_end();
}
