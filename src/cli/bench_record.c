#define _GNU_SOURCE
#include "cli/bench_record.h"

#include "base/cpu.h"
#include "base/file.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_RECORD = 16 << 20 };

#define TOLERANCE 0.05 /* a speed this much below the record is a regression */

/* ---- the machine ---- */

/* The part in brackets of "0.1.0 (commit)". */
static json_t *commit_json(void)
{
    const char *v = strchr(ft_version(), '(');
    return v ? json_stringn(v + 1, strcspn(v + 1, ")")) : json_string("unknown");
}

/* The command line, words separated by spaces. */
static json_t *command_json(void)
{
    char text[2048];
    FILE *f = fopen("/proc/self/cmdline", "r");
    const size_t n = f ? fread(text, 1, sizeof text, f) : 0;
    if (f) fclose(f);
    if (n < 2) return json_string("foretoken bench --json");
    for (size_t i = 0; i + 1 < n; i++)
        if (!text[i]) text[i] = ' ';
    json_t *j = json_stringn(text, n - 1);
    return j ? j : json_string("foretoken bench --json"); /* words that are not UTF-8 */
}

static json_t *date_json(void)
{
    char text[16];
    const time_t now = time(NULL);
    struct tm t;
    strftime(text, sizeof text, "%Y-%m-%d", gmtime_r(&now, &t));
    return json_string(text);
}

static json_t *machine_json(const ft_llm_info *i)
{
    char cpu[128];
    ft_cpu_name(cpu);
    json_t *j = json_object();
    json_object_set_new(j, "cpu", json_string(cpu));
    json_object_set_new(j, "instruction_sets", json_string(ft_cpu_isa_names()));
    json_object_set_new(j, "device", json_string(i->device));
    json_object_set_new(j, "threads", json_integer(i->threads));
    return j;
}

static json_t *model_json(const ft_llm_info *i)
{
    json_t *j = json_object();
    json_object_set_new(j, "name", json_string(i->name));
    json_object_set_new(j, "file", json_string(ft_file_name(i->path)));
    json_object_set_new(j, "arch", json_string(i->arch));
    json_object_set_new(j, "parameters", json_integer((json_int_t)i->parameters));
    json_object_set_new(j, "weight_bytes", json_integer((json_int_t)i->weight_bytes));
    return j;
}

json_t *ft_bench_record(const ft_llm_info *i)
{
    json_t *j = json_object();
    json_object_set_new(j, "machine", machine_json(i));
    json_object_set_new(j, "commit", commit_json());
    json_object_set_new(j, "date", date_json());
    json_object_set_new(j, "command", command_json());
    json_object_set_new(j, "model", model_json(i));
    return j;
}

void ft_bench_print(const json_t *record)
{
    char *s = json_dumps(record, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    puts(s);
    free(s);
}

/* ---- comparison ---- */

/* Prints what differs; false: something does. */
static bool same_values(const json_t *now, const json_t *then, const char *const *key, size_t n,
                        const char *path)
{
    for (size_t i = 0; i < n; i++) {
        const json_t *a = json_object_get(now, key[i]), *b = json_object_get(then, key[i]);
        if (a == b || (a && b && json_equal(a, b))) continue;
        char *x = a ? json_dumps(a, JSON_ENCODE_ANY) : NULL;
        char *y = b ? json_dumps(b, JSON_ENCODE_ANY) : NULL;
        fprintf(stderr, "%s: %s is %s, here %s: not compared\n", path, key[i], y ? y : "absent",
                x ? x : "absent");
        free(x);
        free(y);
        return false;
    }
    return true;
}

static bool comparable(const json_t *now, const json_t *then, const char *path)
{
    static const char *const machine[] = {"cpu", "instruction_sets", "device", "threads"};
    static const char *const model[] = {"name", "arch", "weight_bytes"};
    static const char *const test[] = {"n_prompt", "n_gen", "n_depth", "sequences", "tokens"};
    return same_values(json_object_get(now, "machine"), json_object_get(then, "machine"), machine,
                       FT_COUNT(machine), path) &&
           same_values(json_object_get(now, "model"), json_object_get(then, "model"), model,
                       FT_COUNT(model), path) &&
           same_values(now, then, test, FT_COUNT(test), path);
}

/* One speed of both; higher is better. */
static void compare_speed(const json_t *now, const json_t *then, const char *key, const char *name,
                          int *result)
{
    const double a = json_number_value(json_object_get(now, key));
    const double b = json_number_value(json_object_get(then, key));
    if (!(b > 0)) return;
    const bool slower = a < b * (1 - TOLERANCE);
    fprintf(stderr, "%-28s %10.2f  recorded %10.2f  %.3f%s\n", name, a, b, a / b,
            slower ? "  SLOWER" : "");
    if (slower) *result = FT_BENCH_SLOWER;
}

/* The entry of a class of bench --spec with this way of drafting, or NULL. */
static const json_t *way_of(const json_t *record, const char *class, const char *way)
{
    const json_t *list = json_object_get(json_object_get(record, "classes"), class);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *e = json_array_get(list, i);
        const char *name = json_string_value(json_object_get(e, "drafts"));
        if (name && !strcmp(name, way)) return e;
    }
    return NULL;
}

static void compare_classes(const json_t *now, const json_t *then, int *result)
{
    static const char *const way[] = {"off", "governed"};
    const char *class;
    json_t *list;
    json_object_foreach(json_object_get(then, "classes"), class, list)
    {
        for (size_t i = 0; i < FT_COUNT(way); i++) {
            char name[64];
            snprintf(name, sizeof name, "%s, drafting %s", class, i ? "adaptive" : "off");
            compare_speed(way_of(now, class, way[i]), way_of(then, class, way[i]),
                          "tokens_per_second", name, result);
        }
    }
}

ft_status ft_bench_baseline(json_t **out, const char *path, ft_err *err)
{
    char *text;
    size_t n;
    json_error_t where;
    *out = NULL;
    if (!path) return FT_OK;
    const ft_status st = ft_file_read(&text, &n, path, MAX_RECORD, err);
    if (st) return st;
    *out = json_loadb(text, n, 0, &where);
    ft_free(text);
    if (*out) return FT_OK;
    return ft_fail(err, FT_EFORMAT, "%s: line %d is no JSON: %s", path, where.line, where.text);
}

int ft_bench_compare(const json_t *now, const json_t *then, const char *path)
{
    int result = 0;
    if (!then) return 0;
    if (!comparable(now, then, path)) return FT_BENCH_OTHER;
    compare_speed(now, then, "prompt_tps", "prompt, tokens/s", &result);
    compare_speed(now, then, "decode_tps", "decode, tokens/s", &result);
    compare_classes(now, then, &result);
    return result;
}
