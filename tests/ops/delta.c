/* The gated delta net: convolution, recurrence, chunks, and the invariants of the journal. */
#include "optest.h"

typedef struct net {
    ft_delta s;
    ft_vec w, A, dt, gain;   /* gain: of a gated norm after the recurrence, if any */
    ft_mat u, a, b, y, o, z; /* of all rows used by the test; z: the gate of the norm */
    int slots;
} net;

static float *zeros(ft_optest *t, size_t n)
{
    return t_alloc(t, n * sizeof(float));
}

static net net_new(ft_optest *t, int Hk, int Hv, int S, int C, int J, int slots, int rows)
{
    const int CH = (2 * Hk + Hv) * S;
    const size_t planes = (size_t)slots * 2 * (size_t)J;
    net e = {.slots = slots};
    e.s = (ft_delta){.Hk = Hk, .Hv = Hv, .S = S, .C = C, .CH = CH, .J = J};
    e.s.conv = zeros(t, (size_t)slots * (size_t)(C - 1) * (size_t)CH);
    e.s.state = zeros(t, (size_t)slots * (size_t)Hv * (size_t)(S * S));
    e.s.j_conv = zeros(t, planes * (size_t)CH);
    e.s.j_k = zeros(t, planes * (size_t)(Hk * S));
    e.s.j_d = zeros(t, planes * (size_t)(Hv * S));
    e.s.j_g = zeros(t, planes * (size_t)Hv);
    e.w = t_vec(t, CH * C, -0.6f, 0.6f);
    e.A = t_vec(t, Hv, -1, -0.01f);
    e.dt = t_vec(t, Hv, -2, 1);
    e.u = t_uniform(t, rows, CH, -2, 2);
    e.a = t_uniform(t, rows, Hv, -3, 3);
    e.b = t_uniform(t, rows, Hv, -3, 3);
    e.y = t_output(t, rows, CH);
    e.o = t_output(t, rows, Hv * S);
    return e;
}

/* One step over rows [row, row + sum of n) with the given spans (rows counted from 0). */
static void step(ft_optest *t, const net *e, const ft_span *span, int S, int row)
{
    int32_t of[256];
    int T = 0;
    for (int i = 0; i < S; i++)
        for (int r = 0; r < span[i].n; r++) of[T++] = i;
    t->batch = (ft_batch){.T = T, .S = S};
    t->batch.span_of = t_ints(t, of, T);
    t->batch.span = t_keep(t, span, (size_t)S * sizeof *span);
    t->step->delta = &e->s;
    const ft_delta *s = &e->s;
    ft_mat y = ft_rows(e->y, row, T), o = ft_rows(e->o, row, T);
    t_begin(t);
    ft_conv(t->step, 0, y, ft_rows(e->u, row, T), e->w);
    ft_delta_rule(t->step, 0, ft_heads(o, 0, s->Hv, s->S, s->S), y, ft_rows(e->a, row, T),
                  ft_rows(e->b, row, T), e->A, e->dt);
    if (e->gain.p)
        ft_gated_norm(t->step, ft_heads(o, 0, s->Hv, s->S, s->S), ft_heads(o, 0, s->Hv, s->S, s->S),
                      ft_heads(ft_rows(e->z, row, T), 0, s->Hv, s->S, s->S), e->gain, 1e-6f);
    t_run(t);
}

/* Chunks of a prompt are computed on tensor cores if there are any: their operands are halves. */
static double limit(const ft_optest *t, int S, int rows)
{
    return !strcmp(t->dev->name, "cuda") && S == 128 && rows > FT_DECODE_ROWS ? 1e-6 : 1e-10;
}

static void expect_state(ft_optest *t, const net *e, double limit)
{
    const ft_delta *s = &e->s;
    t_expect_memory(t, s->conv, (size_t)e->slots * (size_t)((s->C - 1) * s->CH), 0);
    t_expect_memory(t, s->state, (size_t)e->slots * (size_t)(s->Hv * s->S * s->S), limit);
}

/* Hk, Hv, S, C, rows, start: one span, then one row more. */
static void delta(ft_optest *t, const int *n)
{
    const int rows = n[4], past = n[5];
    const net e = net_new(t, n[0], n[1], n[2], n[3], 4, 2, rows + 1);
    const ft_span first = {.slot = 1, .n = rows, .start = past};
    step(t, &e, &first, 1, 0);
    t_cost(t, 0, 6.0 * rows * n[1] * n[2] * n[2]);
    t_expect_rest(t, ft_rows(e.o, 0, rows), limit(t, n[2], rows));
    const ft_span next = {.slot = 1, .n = 1, .start = past + rows};
    const double best = t->best_ns;
    step(t, &e, &next, 1, rows);
    t->best_ns = best;
    t_expect_rest(t, ft_rows(e.y, 0, rows), 1e-11);
    t_expect_rest(t, e.o, limit(t, n[2], rows));
    t_check_gaps(t, e.y);
    t_check_gaps(t, e.o);
    expect_state(t, &e, limit(t, n[2], rows));
}
OPTEST(delta, {1, 1, 4, 2, 1, 0}, {1, 2, 8, 4, 5, 0}, {2, 4, 16, 4, 16, 3}, {2, 6, 20, 3, 17, 0},
       {2, 2, 36, 4, 64, 0}, {1, 3, 32, 4, 97, 31}, {2, 4, 64, 4, 200, 7}, {1, 2, 128, 4, 130, 64},
       {2, 6, 128, 4, 200, 60}, {1, 1, 128, 4, 90, 7}, {16, 32, 128, 4, 1, 0}, {3, 5, 7, 4, 70, 0})

/* Several sequences in one step, with spans of every kind. */
static void delta_many(ft_optest *t, const int *n)
{
    const int J = 6;
    const net e = net_new(t, n[0], n[1], n[2], 4, J, 4, 60);
    const ft_span a[3] = {{.slot = 2, .n = 20, .start = 50},
                          {.slot = 0, .row = 20, .n = 1},
                          {.slot = 3, .row = 21, .n = 5, .tentative = 1, .plane = 1}};
    step(t, &e, a, 3, 0);
    expect_state(t, &e, limit(t, n[2], 20));
    const ft_span b[3] = {
        {.slot = 3, .n = 4, .start = 3, .tentative = 1, .replay = 3},
        {.slot = 2, .row = 4, .n = 2, .start = 70, .tentative = 1},
        {.slot = 0, .row = 6, .n = 1, .start = 1},
    };
    step(t, &e, b, 3, 26);
    expect_state(t, &e, limit(t, n[2], 20));
    t_expect_rest(t, ft_rows(e.o, 0, 33), limit(t, n[2], 20));
}
OPTEST(delta_many, {1, 2, 16}, {2, 6, 32}, {3, 3, 12}, {1, 2, 128})

/* The invariant of the journal: accepting m of n tentative rows and going on is bit-identical to
 * never having drafted. Tested for every m, in a second sequence beside the first. n[4]: with a
 * gated norm; n[5]: with decays so strong that products with them are subnormal. */
static void journal(ft_optest *t, const int *n)
{
    const int Hk = n[0], Hv = n[1], S = n[2], rows = n[3], J = FT_MAX(rows, 2), lead = 3;
    const size_t state = (size_t)(Hv * S * S), window = (size_t)(3 * (2 * Hk + Hv) * S);
    float *x = ft_new_n(float, 2 * state), *y = ft_new_n(float, 2 * window);
    net e = net_new(t, Hk, Hv, S, 4, J, 2, 64);
    if (n[4]) {
        e.gain = t_vec(t, S, 0.5f, 2);
        e.z = t_uniform(t, 64, Hv * S, -3, 3);
    }
    if (n[5]) e.A = t_vec(t, Hv, -60, -20);
    for (int m = 0; m <= rows; m++) {
        memset(x, 0, 2 * state * sizeof(float));
        memset(y, 0, 2 * window * sizeof(float));
        t->dev->upload(t->dev, e.s.state, x, 2 * state * sizeof(float));
        t->dev->upload(t->dev, e.s.conv, y, 2 * window * sizeof(float));
        /* with drafting: certain rows, tentative rows, accept m of them, two tentative, accept one
         */
        const int plane = m % 2;
        const ft_span d0 = {.slot = 0, .n = lead};
        const ft_span d1 = {.slot = 0, .n = rows, .start = lead, .plane = plane, .tentative = 1};
        const ft_span d2 = {
            .slot = 0, .n = 2, .start = lead + m, .replay = m, .plane = 1 - plane, .tentative = 1};
        const ft_span d3 = {.slot = 0, .n = 1, .start = lead + m + 1, .replay = 1, .plane = plane};
        step(t, &e, &d0, 1, 0);
        step(t, &e, &d1, 1, lead);
        step(t, &e, &d2, 1, lead + m);
        step(t, &e, &d3, 1, lead + m + 1);
        t_result o = t_read(t, ft_rows(e.o, 0, lead + m + 2));
        /* without: every row in a separate step */
        for (int r = 0; r < lead + m + 2; r++) {
            const ft_span s = {.slot = 1, .n = 1, .start = r};
            step(t, &e, &s, 1, r);
        }
        t_result p = t_read(t, ft_rows(e.o, 0, lead + m + 2));
        t->dev->download(t->dev, x, e.s.state, 2 * state * sizeof(float));
        t->dev->download(t->dev, y, e.s.conv, 2 * window * sizeof(float));
        if (memcmp(x, x + state, state * sizeof(float))) t_fail(t, "state differs, accepted", m);
        if (memcmp(y, y + window, window * sizeof(float))) t_fail(t, "window differs, accepted", m);
        if (memcmp(o.v, p.v, (size_t)(o.T * o.cols) * sizeof(float)))
            t_fail(t, "outputs differ, accepted", m);
        t_expect_values(t, o, 1e-10);
        ft_free(p.v);
    }
    ft_free(x);
    ft_free(y);
}
OPTEST(journal, {1, 1, 8, 1}, {1, 2, 16, 4}, {2, 4, 36, 3}, {2, 6, 128, 5}, {2, 6, 128, 5, 1},
       {1, 2, 16, 4, 1}, {1, 2, 128, 9}, {1, 1, 200, 7}, {1, 3, 64, 8}, {1, 2, 128, 4, 0, 1})

/* A prompt cut at a multiple of the chunk size gives the same bits as the whole prompt. */
static void cut(ft_optest *t, const int *n)
{
    const int Hk = 1, Hv = 2, S = n[0], rows = n[1], at = n[2];
    const net e = net_new(t, Hk, Hv, S, 4, 1, 2, rows);
    const ft_span whole = {.slot = 0, .n = rows};
    const ft_span head = {.slot = 1, .n = at}, tail = {.slot = 1, .n = rows - at, .start = at};
    step(t, &e, &whole, 1, 0);
    t_result o = t_read(t, e.o);
    step(t, &e, &head, 1, 0);
    step(t, &e, &tail, 1, at);
    t_result p = t_read(t, e.o);
    const size_t state = (size_t)(Hv * S * S);
    float *x = ft_new_n(float, 2 * state);
    t->dev->download(t->dev, x, e.s.state, 2 * state * sizeof(float));
    if (memcmp(x, x + state, state * sizeof(float))) t_fail(t, "state differs after a cut", at);
    if (memcmp(o.v, p.v, (size_t)(o.T * o.cols) * sizeof(float)))
        t_fail(t, "outputs differ after a cut", at);
    t_expect_values(t, o, limit(t, S, rows));
    ft_free(p.v);
    ft_free(x);
}
OPTEST(cut, {16, 70, 64}, {32, 130, 64}, {32, 129, 128}, {16, 200, 128}, {64, 90, 64},
       {128, 150, 64}, {128, 210, 128}, {128, 74, 64})

/* Serial rows: a span whose first rows are serial has the bits of those rows in one step each and
 * the rest in one span. S, start, serial rows, rows; the first sequence of two spans in the step.
 */
static void serial(ft_optest *t, const int *n)
{
    const int Hk = 1, Hv = 2, S = n[0], start = n[1], lead = n[2], rows = n[3];
    const net e = net_new(t, Hk, Hv, S, 4, 1, 3, rows + 20);
    const ft_span both[2] = {{.slot = 0, .n = rows, .start = start, .serial = lead},
                             {.slot = 2, .row = rows, .n = 20}};
    step(t, &e, both, 2, 0);
    t_result o = t_read(t, ft_rows(e.o, 0, rows));
    for (int r = 0; r < lead; r++) {
        const ft_span one = {.slot = 1, .n = 1, .start = start + r};
        step(t, &e, &one, 1, r);
    }
    const ft_span rest = {.slot = 1, .n = rows - lead, .start = start + lead};
    if (rest.n) step(t, &e, &rest, 1, lead);
    t_result p = t_read(t, ft_rows(e.o, 0, rows));
    const size_t state = (size_t)(Hv * S * S);
    float *x = ft_new_n(float, 2 * state);
    t->dev->download(t->dev, x, e.s.state, 2 * state * sizeof(float));
    if (memcmp(x, x + state, state * sizeof(float))) t_fail(t, "state differs, serial rows", lead);
    if (memcmp(o.v, p.v, (size_t)(o.T * o.cols) * sizeof(float)))
        t_fail(t, "outputs differ, serial rows", lead);
    t_expect_values(t, o, limit(t, S, rows));
    ft_free(p.v);
    ft_free(x);
}
OPTEST(serial, {16, 0, 40, 40}, {32, 7, 33, 90}, {128, 0, 70, 70}, {128, 30, 40, 40},
       {128, 30, 41, 100}, {128, 60, 50, 150}, {128, 64, 64, 130}, {128, 5, 54, 200},
       {128, 5, 20, 200}, {128, 100, 0, 100})

/* A gated norm after the recurrence, which a device may compute with it: Hk, Hv, S, rows. Serial
 * rows of one span have the bits of one row in each step, and of two steps. */
static void delta_norm(ft_optest *t, const int *n)
{
    const int Hv = n[1], S = n[2], rows = n[3], half = rows / 2;
    net e = net_new(t, n[0], Hv, S, 4, 1, 3, rows);
    e.gain = t_vec(t, S, 0.5f, 2);
    e.z = t_uniform(t, rows, Hv * S, -3, 3);
    const ft_span whole = {.slot = 0, .n = rows, .serial = rows};
    step(t, &e, &whole, 1, 0);
    t_result o = t_read(t, e.o);
    for (int r = 0; r < rows; r++) {
        const ft_span one = {.slot = 1, .n = 1, .start = r};
        step(t, &e, &one, 1, r);
    }
    t_result p = t_read(t, e.o);
    const ft_span first = {.slot = 2, .n = half, .serial = half};
    const ft_span rest = {.slot = 2, .n = rows - half, .start = half, .serial = rows - half};
    step(t, &e, &first, 1, 0);
    step(t, &e, &rest, 1, half);
    t_result q = t_read(t, e.o);
    const size_t bytes = (size_t)(o.T * o.cols) * sizeof(float);
    if (memcmp(o.v, p.v, bytes)) t_fail(t, "outputs differ, rows alone", rows);
    if (memcmp(o.v, q.v, bytes)) t_fail(t, "outputs differ, two steps", half);
    expect_state(t, &e, limit(t, S, 1));
    t_expect_rest(t, e.y, 1e-10);
    t_expect_values(t, o, limit(t, S, 1));
    t_check_gaps(t, e.o);
    ft_free(p.v);
    ft_free(q.v);
}
OPTEST(delta_norm, {1, 1, 16, 5}, {2, 4, 32, 20}, {1, 3, 36, 20}, {2, 2, 64, 33}, {2, 6, 128, 40})

int main(int argc, char **argv)
{
    const t_case *const all[] = {&delta_case, &delta_many_case, &journal_case,
                                 &cut_case,   &serial_case,     &delta_norm_case};
    return t_main(argc, argv, all, FT_COUNT(all));
}
