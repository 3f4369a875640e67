/* bench/layouts.c - predicts tokens per second of a model on 1 to 64 GPUs for three layouts: ranges
 * of layers (what foretoken does), the same with groups of sequences that follow each other, and
 * tensor parallel (docs/why/0021-tensor-parallel.md). Inputs are figures measured on one H200
 * (docs/bench.md) and the speed of the links.
 *     build/bench/layouts [--link nvlink|ib|staged] [--sequences N] [--allreduce-us X] [--json] */
#include <jansson.h>

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One H200, measured. A decode step takes the bytes of the weights that it reads divided by the
 * bandwidth, a fixed time per layer (launches, small kernels), and a time per further row. */
static const double bandwidth = 4.66e12; /* bytes/s, a plain read kernel */
static const double layer_s = 41e-6; /* from 35b-a3b: (1/495 s - 1.7 GB / 4.66 TB/s) / 40 layers */
static const double row_s = 0.30e-3 / 27e9; /* per active weight: 27b, 1 to 64 sequences */
/* per active weight and row, -b 2048: 27b, and 35b-a3b, whose experts get few rows each */
static const double prompt_s = 1 / 9366.0 / 27e9, prompt_experts_s = 1 / 36712.0 / 3e9;
static const double gpu_bytes = 141e9 * 0.92;     /* for weights, caches and buffers */
static const double weight_bytes = 15.4e9 / 27e9; /* Q4_K */

typedef struct shape {
    const char *name;
    double weights, active; /* parameters */
    int layers, width;
    double measured; /* decode on one H200, tokens/s; 0: none */
} shape;

static const shape shapes[] = {
    {"27b", 27e9, 27e9, 64, 5120, 159},
    {"35b-a3b", 35e9, 3e9, 40, 2048, 495},
    {"122b-a10b", 122e9, 10e9, 48, 3072, 0},
    {"397b-a17b", 397e9, 17e9, 60, 4096, 0},
};

typedef struct transport {
    const char *name;
    double latency, rate; /* seconds per message, bytes per second */
} transport;

static const transport links[] = {
    {"nvlink", 10e-6, 400e9}, /* a peer copy between two streams of a machine */
    {"ib", 15e-6, 45e9},      /* 400 Gbit/s, from GPU memory to GPU memory */
    {"staged", 60e-6, 10e9},  /* through host memory on both sides */
};

typedef struct options {
    const transport *by;
    double allreduce; /* seconds, for a few rows */
    int sequences;
    bool json;
} options;

static double step_time(const shape *m, double part, int rows)
{
    /* experts: few rows choose different ones, so that more rows read more of them */
    const double read =
        fmin(m->weights, m->active * (1 + 0.6 * (rows - 1) * (m->active < m->weights)));
    return part *
           (read * weight_bytes / bandwidth + m->layers * layer_s + (rows - 1) * m->active * row_s);
}

static double border(const options *o, const shape *m, int rows)
{
    return o->by->latency + 4.0 * rows * m->width / o->by->rate;
}

/* Ranges of layers: one step after the other. */
static double layers_decode(const options *o, const shape *m, int n)
{
    const double t = step_time(m, 1, o->sequences) + (n - 1) * border(o, m, o->sequences);
    return o->sequences / t;
}

/* The same with n groups of sequences: a GPU always has one of them. */
static double groups_decode(const options *o, const shape *m, int n)
{
    const int groups = o->sequences < n ? o->sequences : n,
              rows = (o->sequences + groups - 1) / groups;
    const double stage = step_time(m, 1.0 / n, rows) + border(o, m, rows);
    return groups * rows / (stage * n);
}

/* Parts of a prompt of 2048 rows; n of them are under way. */
static double layers_prompt(const options *o, const shape *m, int n, int length)
{
    const int rows = n > 1 ? 512 : 2048, parts = (length + rows - 1) / rows;
    const double each = m->active < m->weights ? prompt_experts_s : prompt_s;
    /* smaller products: measured with -b 512 */
    const double smaller = m->active < m->weights ? 36712.0 / 18787 : 9366.0 / 7801;
    const double loss = rows == 512 ? smaller : 1;
    const double stage = rows * m->active * each * loss / n + border(o, m, rows);
    return length / (stage * (parts + n - 1));
}

/* Every matrix is divided: two all-reduces per layer. The launches remain. */
static double tensor_decode(const options *o, const shape *m, int n)
{
    const double whole = step_time(m, 1, o->sequences), fixed = m->layers * layer_s;
    const double t = (whole - fixed) / n + fixed + (n > 1 ? 2 * m->layers * o->allreduce : 0);
    return o->sequences / t;
}

static void print_model(const options *o, const shape *m, json_t *out)
{
    const int least = (int)ceil(m->weights * weight_bytes / gpu_bytes);
    if (!o->json) {
        printf("\n%s Q4_K, %.1f GB, at least %d GPU%s", m->name, m->weights * weight_bytes / 1e9,
               least, least == 1 ? "" : "s");
        if (m->measured > 0)
            printf("; measured on one: %.0f, predicted %.0f", m->measured, 1 / step_time(m, 1, 1));
        printf("\n  GPUs   layers   layers, groups   tensor parallel   prompt of 8192\n");
    }
    for (int n = 1; n <= 64; n *= 2) {
        if (n < least || n > m->layers) continue;
        const double a = layers_decode(o, m, n), b = groups_decode(o, m, n);
        const double c = n <= 8 ? tensor_decode(o, m, n) : 0, p = layers_prompt(o, m, n, 8192);
        if (!o->json)
            printf("  %4d %8.0f %16.0f %17.0f %16.0f\n", n, a, b, c, p);
        else
            json_array_append_new(out, json_pack("{s:s, s:i, s:f, s:f, s:f, s:f}", "model", m->name,
                                                 "gpus", n, "layers", a, "groups", b, "tensor", c,
                                                 "prompt", p));
    }
}

int main(int argc, char **argv)
{
    options o = {.by = &links[0], .allreduce = 15e-6, .sequences = 1};
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (!strcmp(argv[i], "--json")) {
            o.json = true;
            continue;
        }
        i++;
        if (!strcmp(argv[i - 1], "--sequences"))
            o.sequences = atoi(value);
        else if (!strcmp(argv[i - 1], "--allreduce-us"))
            o.allreduce = atof(value) * 1e-6;
        else if (!strcmp(argv[i - 1], "--link"))
            for (size_t k = 0; k < sizeof links / sizeof *links; k++)
                if (!strcmp(value, links[k].name)) o.by = &links[k];
    }
    if (o.sequences < 1 || o.sequences > 4096) {
        fprintf(stderr, "layouts: --sequences %d, want 1 to 4096\n", o.sequences);
        return 1;
    }
    json_t *out = json_array();
    if (!o.json)
        printf("%d sequence%s, %s (%.0f us, %.0f GB/s), all-reduce %.0f us; tokens/s\n",
               o.sequences, o.sequences == 1 ? "" : "s", o.by->name, o.by->latency * 1e6,
               o.by->rate / 1e9, o.allreduce * 1e6);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) print_model(&o, &shapes[i], out);
    if (o.json) json_dumpf(out, stdout, JSON_INDENT(1));
    json_decref(out);
    return 0;
}
