/* tests/golden_build.h - builds the GGUF of a golden folder.
 * A golden folder contains a config, a manifest and reference arrays, but no weights: a weight is a
 * formula of its name and index (tests/golden/README.md). golden_folder() writes a Hugging Face
 * folder with the weights, golden_gguf() converts that into one file. The functions are static:
 * include this header once per program. */
#ifndef FT_TESTS_GOLDEN_BUILD_H
#define FT_TESTS_GOLDEN_BUILD_H

#include "base/buf.h"
#include "base/file.h"
#include "base/half.h"
#include "base/mem.h"
#include "base/rng.h"
#include "tools/convert.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The formula of the values of a tensor, from the manifest. */
typedef struct golden_formula {
    uint64_t h;
    double offset, scale;
    bool bf16;
} golden_formula;

static inline golden_formula golden_formula_of(const json_t *entry)
{
    const json_t *seed = json_object_get(entry, "seed");
    const char *name = json_string_value(seed ? seed : json_object_get(entry, "name"));
    const char *type = json_string_value(json_object_get(entry, "dtype"));
    return (golden_formula){.h = ft_fnv1a64(name, strlen(name)),
                            .offset = json_number_value(json_object_get(entry, "offset")),
                            .scale = json_number_value(json_object_get(entry, "scale")),
                            .bf16 = !strcmp(type, "BF16")};
}

/* Value i, rounded to f32 (and to bf16 when that is the type of the tensor). */
static inline float golden_value(const golden_formula *f, uint64_t i)
{
    const uint64_t z = ft_mix64(f->h + (i + 1) * 0x9E3779B97F4A7C15u);
    const double u = (double)(z >> 40) * 0x1p-24;
    const float x = (float)(f->offset + f->scale * (2 * u - 1));
    return f->bf16 ? ft_bf16_to_f32(ft_f32_to_bf16(x)) : x;
}

static inline uint64_t golden_count(const json_t *entry)
{
    const json_t *shape = json_object_get(entry, "shape");
    uint64_t n = 1;
    for (size_t i = 0; i < json_array_size(shape); i++)
        n *= (uint64_t)json_integer_value(json_array_get(shape, i));
    return n;
}

/* The entry with this name, or NULL. */
static inline const json_t *golden_entry(const json_t *manifest, const char *name)
{
    for (size_t i = 0; i < json_array_size(manifest); i++) {
        const json_t *e = json_array_get(manifest, i);
        if (!strcmp(json_string_value(json_object_get(e, "name")), name)) return e;
    }
    return NULL;
}

static inline size_t golden_width(const json_t *entry)
{
    const char *type = json_string_value(json_object_get(entry, "dtype"));
    return !strcmp(type, "BF16") ? 2 : !strcmp(type, "F32") ? 4 : !strcmp(type, "F8_E4M3") ? 1 : 8;
}

static inline void golden_write_values(ft_out_file *out, const json_t *entry)
{
    const json_t *values = json_object_get(entry, "values");
    const uint64_t n = golden_count(entry);
    const golden_formula f = golden_formula_of(entry);
    for (uint64_t i = 0; i < n; i++) {
        if (values) {
            const int64_t v = json_integer_value(json_array_get(values, (size_t)i));
            ft_out_write(out, &v, golden_width(entry)); /* I64, or bytes */
            continue;
        }
        const float x = golden_value(&f, i);
        const uint16_t half = ft_f32_to_bf16(x);
        if (f.bf16)
            ft_out_write(out, &half, 2);
        else
            ft_out_write(out, &x, 4);
    }
}

/* One safetensors file with all tensors of the manifest. */
static inline ft_status golden_safetensors(const json_t *manifest, const char *path, ft_err *err)
{
    json_t *header = json_object();
    uint64_t at = 0;
    for (size_t i = 0; i < json_array_size(manifest); i++) {
        json_t *e = json_array_get(manifest, i);
        const uint64_t bytes = golden_count(e) * golden_width(e);
        json_t *t = json_object();
        json_object_set(t, "dtype", json_object_get(e, "dtype"));
        json_object_set(t, "shape", json_object_get(e, "shape"));
        json_object_set_new(t, "data_offsets",
                            json_pack("[I, I]", (json_int_t)at, (json_int_t)(at + bytes)));
        json_object_set_new(header, json_string_value(json_object_get(e, "name")), t);
        at += bytes;
    }
    char *text = json_dumps(header, JSON_COMPACT);
    json_decref(header);
    ft_out_file *out;
    const ft_status st = ft_out_open(&out, path, err);
    if (!st) {
        const uint64_t n = strlen(text);
        ft_out_write(out, &n, 8);
        ft_out_write(out, text, (size_t)n);
        for (size_t i = 0; i < json_array_size(manifest); i++)
            golden_write_values(out, json_array_get(manifest, i));
    }
    free(text);
    return st ? st : ft_out_commit(out, err);
}

static inline ft_status golden_copy(const char *from, const char *to, ft_err *err)
{
    char *text;
    size_t n;
    ft_out_file *out;
    ft_status st = ft_file_read(&text, &n, from, (size_t)64 << 20, err);
    if (st) return st;
    st = ft_out_open(&out, to, err);
    if (!st) ft_out_write(out, text, n);
    ft_free(text);
    return st ? st : ft_out_commit(out, err);
}

/* The manifest of a golden folder; json_decref releases it. */
static inline ft_status golden_manifest(json_t **out, const char *dir, ft_err *err)
{
    char path[4096];
    json_error_t e;
    snprintf(path, sizeof path, "%s/manifest.json", dir);
    *out = json_load_file(path, 0, &e);
    if (!*out) return ft_fail(err, FT_EFORMAT, "%s: line %d: %s", path, e.line, e.text);
    return FT_OK;
}

/* Writes config.json and model.safetensors of the golden folder dir into the folder to. */
static inline ft_status golden_folder(const char *dir, const char *to, ft_err *err)
{
    char from[4300], path[4300];
    json_t *manifest;
    if (mkdir(to, 0777) && errno != EEXIST) return ft_fail_errno(err, "%s", to);
    ft_status st = golden_manifest(&manifest, dir, err);
    if (st) return st;
    snprintf(path, sizeof path, "%s/model.safetensors", to);
    st = golden_safetensors(manifest, path, err);
    json_decref(manifest);
    snprintf(from, sizeof from, "%s/config.json", dir);
    snprintf(path, sizeof path, "%s/config.json", to);
    return st ? st : golden_copy(from, path, err);
}

/* Builds the GGUF of the golden folder dir at path; the intermediate folder is removed.
 * outtype: as for convert, or NULL. */
static inline ft_status golden_gguf(const char *dir, const char *path, const char *outtype,
                                    ft_err *err)
{
    char tmp[4200], file[4300];
    snprintf(tmp, sizeof tmp, "%s.hf", path);
    ft_status st = golden_folder(dir, tmp, err);
    const ft_convert_opts o = {.outtype = outtype, .no_vocab = true};
    if (!st) st = ft_convert(tmp, path, &o, NULL, err);
    snprintf(file, sizeof file, "%s/model.safetensors", tmp);
    unlink(file);
    snprintf(file, sizeof file, "%s/config.json", tmp);
    unlink(file);
    rmdir(tmp);
    return st;
}

#endif
