#include "base/params.h"

#include "base/err.h"
#include "base/str.h"

/* The kind that a C type has; `bool` is a macro, so the names are pasted, never expanded. */
enum {
    KIND_float = FT_PARAM_FLOAT,
    KIND_int = FT_PARAM_INT,
    KIND_bool = FT_PARAM_FLAG,
};

const ft_param ft_request_params[FT_REQUEST_ROWS] = {
#define FT_SAMPLING(type, field, number, ...)                                                      \
    [FT_ROW_##field] = {.kind = (ft_param_kind)KIND_##type,                                        \
                        .group = FT_GROUP_SAMPLING,                                                \
                        .def = #number,                                                            \
                        __VA_ARGS__},
#define FT_REQUEST(type, field, number, ...)                                                       \
    [FT_ROW_##field] = {.kind = (ft_param_kind)KIND_##type, __VA_ARGS__},
#define FT_ANSWER(type, field, number, ...)                                                        \
    [FT_ROW_##field] = {.kind = (ft_param_kind)KIND_##type, __VA_ARGS__},
#define FT_SHAPED(field, ...) [FT_ROW_##field] = {__VA_ARGS__},
#include "base/request.def"
};

const ft_sampler_name ft_sampler_names[] = {
#define FT_SAMPLER(kind, name, letter) {#name, letter},
#include "base/request.def"
    {NULL, 0},
};

/* Is the word one of those before spelling n? */
static bool seen(const ft_param *p, int api, const char *at, ft_str word)
{
    for (int a = 0; a <= api; a++) {
        for (const char *z = p->json[a]; z && *z; z += strspn(z, " ")) {
            const size_t n = strcspn(z, " ");
            if (z == at) return false;
            if (ft_str_eq((ft_str){z, n}, word)) return true;
            z += n;
        }
    }
    return false;
}

bool ft_param_json_name(const ft_param *p, int n, char out[64])
{
    for (int a = 0; a < FT_JSON_APIS; a++) {
        for (const char *z = p->json[a]; z && *z; z += strspn(z, " ")) {
            const ft_str word = {z, strcspn(z, " ")};
            if (!seen(p, a, z, word) && n-- == 0) {
                memcpy(out, word.p, word.n < 63 ? word.n : 63);
                out[word.n < 63 ? word.n : 63] = 0;
                return true;
            }
            z += word.n;
        }
    }
    return false;
}
