/* cli/quantize.c - foretoken quantize: converts the tensor types of a GGUF file. */
#include "tools/quantize.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/cmd.h"
#include "cli/progress.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct total {
    uint64_t from, to, values;
} total;

static total sum(const ft_quantize *q)
{
    total t = {0, 0, 0};
    for (size_t i = 0; i < ft_quantize_n(q); i++) {
        const ft_quantize_row *r = ft_quantize_at(q, i);
        t.from += r->bytes_from;
        t.to += r->bytes_to;
        t.values += (uint64_t)(r->n[0] * r->n[1] * r->n[2] * r->n[3]);
    }
    return t;
}

static double bits(uint64_t bytes, uint64_t values)
{
    return values ? 8.0 * (double)bytes / (double)values : 0;
}

static void print_table(const ft_quantize *q)
{
    for (size_t i = 0; i < ft_quantize_n(q); i++) {
        const ft_quantize_row *r = ft_quantize_at(q, i);
        char shape[64], a[24], b[24];
        int at = 0;
        for (int d = 0; d < r->n_dims; d++)
            at += snprintf(shape + at, sizeof shape - (size_t)at, "%s%lld", d ? " x " : "",
                           (long long)r->n[d]);
        shape[at] = 0;
        printf("%-40.*s %-20s %-7s %12s -> %-7s %12s%s\n", FT_STR_FMT(r->name), shape,
               ft_type_name(r->from), ft_human_bytes(a, r->bytes_from), ft_type_name(r->to),
               ft_human_bytes(b, r->bytes_to), r->weighted ? "  weighted" : "");
    }
}

static void print_json(const ft_quantize *q, const char *mix)
{
    const total t = sum(q);
    json_t *list = json_array();
    for (size_t i = 0; i < ft_quantize_n(q); i++) {
        const ft_quantize_row *r = ft_quantize_at(q, i);
        json_array_append_new(list, json_pack("{s:s%, s:s, s:s, s:I, s:I, s:b}", "name", r->name.p,
                                              r->name.n, "from", ft_type_name(r->from), "to",
                                              ft_type_name(r->to), "bytes_from",
                                              (json_int_t)r->bytes_from, "bytes_to",
                                              (json_int_t)r->bytes_to, "weighted", r->weighted));
    }
    json_t *all = json_pack("{s:s, s:I, s:I, s:f, s:o}", "type", mix, "bytes_from",
                            (json_int_t)t.from, "bytes_to", (json_int_t)t.to, "bits_per_weight",
                            bits(t.to, t.values), "tensors", list);
    char *text = json_dumps(all, JSON_COMPACT | JSON_REAL_PRECISION(6));
    json_decref(all);
    puts(text ? text : "{}");
    free(text);
}

static void print_summary(const ft_quantize *q, const char *name, const char *mix)
{
    const total t = sum(q);
    char a[24], b[24];
    printf("%s: %s, %zu tensors, %s -> %s, %.2f bits per weight\n", name, mix, ft_quantize_n(q),
           ft_human_bytes(a, t.from), ft_human_bytes(b, t.to), bits(t.to, t.values));
}

int ft_cmd_quantize(const ft_opts *o)
{
    ft_err err;
    const bool dry = ft_opts_flag(o, "dry-run"), json = ft_opts_flag(o, "json"),
               quiet = json || ft_opts_flag(o, "quiet");
    const int words = ft_opts_n_word(o), n = ft_opts_count(o, "tensor-type");
    if (words < 3 && !dry) {
        ft_fail(&err, FT_EINVAL, "quantize has 2 arguments, want: foretoken quantize IN OUT TYPE");
        return ft_die(&err);
    }
    const char **pattern = ft_new_n(const char *, (size_t)n + 1);
    for (int i = 0; i < n; i++) pattern[i] = ft_opts_at(o, "tensor-type", i);
    const ft_quantize_opts q = {
        .mix = ft_opts_word(o, words - 1),
        .tensor_type = pattern,
        .n_tensor_type = n,
        .tensor_type_file = ft_opts_text(o, "tensor-type-file"),
        .output_type = ft_opts_text(o, "output-tensor-type"),
        .embedding_type = ft_opts_text(o, "token-embedding-type"),
        .imatrix = ft_opts_text(o, "imatrix"),
        .keep_mtp = ft_opts_flag(o, "keep-mtp"),
        .pure = ft_opts_flag(o, "pure"),
        .leave_output = ft_opts_flag(o, "leave-output-tensor"),
        .allow_requantize = ft_opts_flag(o, "allow-requantize"),
        .threads = (int)ft_opts_int(o, "threads"),
        .progress = quiet ? NULL : ft_bar_bytes,
    };
    const char *in = ft_opts_word(o, 0), *out = ft_opts_word(o, 1);
    ft_quantize *plan = NULL;
    uint64_t bytes;
    ft_status st = ft_quantize_open(&plan, in, &q, &err);
    if (!st && !dry) st = ft_quantize_write(plan, out, &bytes, &err);
    if (!st && json)
        print_json(plan, q.mix);
    else if (!st) {
        if (dry) print_table(plan);
        if (dry || !quiet) print_summary(plan, dry ? in : out, q.mix);
        if (!dry && !quiet) ft_print_usage_of(out, ft_quantize_arch(plan));
    }
    ft_quantize_close(plan);
    ft_free(pattern);
    return st ? ft_die(&err) : 0;
}
