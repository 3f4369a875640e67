#include "serve/images.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "serve/image_url.h"
#include "serve/media_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

enum { IMAGE_BYTES = 20 << 20, DOWNLOAD_S = 10 }; /* of an image that is downloaded */
enum { LOW_TOKENS = 256, LOW_TOKENS_GEMMA = 70 };

static const char *type_of(const json_t *part)
{
    const char *t = json_string_value(ft_get(part, "type"));
    return t ? t : "";
}

static bool is_image(const json_t *part)
{
    const char *t = type_of(part);
    return !strcmp(t, "image_url") || !strcmp(t, "input_image") || !strcmp(t, "image");
}

bool ft_images_in(const json_t *content)
{
    const json_t *part;
    size_t i;
    json_array_foreach(content, i, part) if (is_image(part)) return true;
    return false;
}

/* Maximum number of tokens of the image; 0: the server's limit. */
static int tokens_of(const ft_served *d, const char *detail)
{
    if (!detail || strcmp(detail, "low")) return 0;
    return strstr(d->info->arch, "Gemma") ? LOW_TOKENS_GEMMA : LOW_TOKENS;
}

static bool is_file(const char *text, size_t n)
{
    return n > 7 && !strncasecmp(text, "file://", 7);
}

static bool is_address(const char *text, size_t n)
{
    return n > 7 && (!strncasecmp(text, "http://", 7) || !strncasecmp(text, "https://", 8) ||
                     is_file(text, n));
}

/* What went wrong below --media-path or at a host: the latter's errors are the host's. */
static bool refused(ft_status st, bool remote, const char *where, const ft_err *err,
                    ft_http_error *error)
{
    return ft_http_error_set(error, remote && st == FT_EIO ? FT_ERR_REMOTE : FT_ERR_INVALID, where,
                             "%s: %s", where, err->text);
}

static bool download(ft_gen_params *a, const char *url, size_t n, void **bytes, size_t *n_bytes,
                     const char *where, ft_http_error *error)
{
    ft_err err;
    ft_status st;
    if (is_file(url, n) && a->media_path && strlen(url) == n) {
        st = ft_media_read(bytes, n_bytes, a->media_path, url + 7, IMAGE_BYTES, &err);
        return !st || refused(st, false, where, &err, error);
    }
    if (is_file(url, n) && !a->media_path)
        return ft_http_error_set(error, FT_ERR_INVALID, where,
                                 "%s is the address of a file, want its data: "
                                 "data:image/...;base64,... (the server reads files with "
                                 "--media-path)",
                                 where);
    if (!a->image_hosts && !is_file(url, n))
        return ft_http_error_set(error, FT_ERR_INVALID, where,
                                 "%s is the address of an image, want its data: "
                                 "data:image/...;base64,... (the server downloads images with "
                                 "--allow-image-urls)",
                                 where);
    if (strlen(url) != n)
        return ft_http_error_set(error, FT_ERR_INVALID, where, "%s has a zero byte, want none",
                                 where);
    const ft_image_url_rules rules = {.hosts = a->image_hosts,
                                      .bytes = IMAGE_BYTES,
                                      .seconds = FT_MIN((double)DOWNLOAD_S, a->image_s)};
    const int64_t start = ft_now_ns();
    st = ft_image_url_get(url, &rules, bytes, n_bytes, &err);
    a->image_s -= (double)(ft_now_ns() - start) * 1e-9;
    return !st || refused(st, true, where, &err, error);
}

bool ft_images_add(ft_gen_params *a, const ft_served *d, const char *text, size_t n,
                   const char *detail, const char *where, ft_http_error *error)
{
    ft_err err;
    void *bytes;
    size_t n_bytes;
    if (!d->info->vision)
        return ft_http_error_set(error, FT_ERR_INVALID, where,
                                 "%s is an image, and this model has no vision tower: start the "
                                 "server with --mmproj",
                                 where);
    if (a->r.n_images == FT_REQUEST_IMAGES)
        return ft_http_error_set(error, FT_ERR_INVALID, where,
                                 "%s exceeds the maximum of %d images", where, FT_REQUEST_IMAGES);
    if (is_address(text, n)) {
        if (!download(a, text, n, &bytes, &n_bytes, where, error)) return false;
    } else if (ft_image_from_text(text, n, &bytes, &n_bytes, &err)) {
        return ft_http_error_set(error, FT_ERR_INVALID, where, "%s: %s", where, err.text);
    }
    ft_gen_params_own(a, bytes);
    const ft_image_input in = {.bytes = bytes, .n = n_bytes, .max_tokens = tokens_of(d, detail)};
    int tokens;
    if (ft_llm_image_tokens(d->llm, &in, &tokens, &err))
        return ft_http_error_set(error, FT_ERR_INVALID, where, "%s: %s", where, err.text);
    a->image[a->r.n_images++] = in;
    a->r.images = a->image;
    return true;
}

/* {"image_url": {"url": U, "detail": D}}, or {"image_url": U, "detail": D}. */
static bool add_part(ft_gen_params *a, const ft_served *d, const json_t *part, const char *where,
                     ft_http_error *error)
{
    const json_t *url = ft_get(part, "image_url"), *detail = ft_get(part, "detail");
    char brief[72];
    if (json_is_object(url)) {
        if (!detail) detail = ft_get(url, "detail");
        url = ft_get(url, "url");
    }
    if (!json_is_string(url))
        return ft_http_error_set(error, FT_ERR_INVALID, where,
                                 "%s is %s, want an image_url with the data of an image", where,
                                 ft_json_brief(part, brief));
    return ft_images_add(a, d, json_string_value(url), json_string_length(url),
                         json_string_value(detail), where, error);
}

bool ft_images_read(ft_gen_params *a, const ft_served *d, const json_t *content, size_t i,
                    json_t **out, ft_http_error *error)
{
    json_t *list = json_array();
    const json_t *part;
    size_t k;
    bool ok = true;
    json_array_foreach(content, k, part)
    {
        char where[64], brief[72];
        snprintf(where, sizeof where, "messages[%zu].content[%zu]", i, k);
        const json_t *text = json_is_string(part) ? part : ft_get(part, "text");
        if (is_image(part)) {
            ok = add_part(a, d, part, where, error);
            json_array_append_new(list, json_pack("{s:s}", "type", "image"));
        } else if (json_is_string(text)) {
            json_array_append_new(list, json_pack("{s:s, s:O}", "type", "text", "text", text));
        } else {
            ok =
                ft_http_error_set(error, FT_ERR_INVALID, where, "%s is %s, want a text or an image",
                                  where, ft_json_brief(part, brief));
        }
        if (!ok) break;
    }
    if (ok)
        *out = list;
    else
        json_decref(list);
    return ok;
}

int ft_images_count(const ft_gen_params *a, const ft_served *d, int n)
{
    for (int i = 0; i < a->r.n_images; i++) {
        int tokens = 1;
        if (!ft_llm_image_tokens(d->llm, &a->r.images[i], &tokens, NULL)) n += tokens - 1;
    }
    return n;
}

json_t *ft_images_marked(const ft_served *d, const json_t *text)
{
    const char *p = json_string_value(text), *to = d->info->image_marker;
    ft_buf b;
    ft_buf_init(&b, SIZE_MAX / 2);
    for (const char *at; to && (at = strstr(p, FT_MEDIA_MARKER));
         p = at + sizeof FT_MEDIA_MARKER - 1) {
        ft_buf_put(&b, p, (size_t)(at - p));
        ft_buf_puts(&b, to);
    }
    ft_buf_puts(&b, p);
    json_t *out = json_stringn(ft_buf_z(&b), b.len);
    ft_buf_release(&b);
    return out;
}

/* ---- Anthropic and Ollama ---- */

static json_t *url_part(json_t *url)
{
    return json_pack("{s:s, s:{s:o}}", "type", "image_url", "image_url", "url", url);
}

json_t *ft_images_from_anthropic(const json_t *block, size_t i, ft_http_error *error)
{
    const json_t *source = ft_get(block, "source");
    const char *kind = type_of(source);
    char brief[72];
    json_t *data = ft_get(source, !strcmp(kind, "url") ? "url" : "data");
    if ((!strcmp(kind, "base64") || !strcmp(kind, "url")) && json_is_string(data))
        return url_part(json_incref(data));
    ft_http_error_set(error, FT_ERR_INVALID, "messages",
                      "messages[%zu] has the image source %s, want type base64 with data", i,
                      ft_json_brief(source, brief));
    return NULL;
}

json_t *ft_images_before(const json_t *parts, json_t *text)
{
    if (!json_array_size(parts)) return text;
    json_t *list = json_copy((json_t *)(uintptr_t)parts);
    if (json_string_length(text))
        json_array_append_new(list, json_pack("{s:s, s:O}", "type", "text", "text", text));
    json_decref(text);
    return list;
}

void ft_images_from_ollama(json_t *message, const json_t *images)
{
    json_t *parts = json_array(), *one, *text = ft_get(message, "content");
    size_t i;
    json_array_foreach((json_t *)(uintptr_t)images, i, one)
        json_array_append_new(parts, url_part(json_incref(one)));
    if (json_array_size(parts) && (!text || json_is_string(text)))
        json_object_set_new(message, "content",
                            ft_images_before(parts, text ? json_incref(text) : json_string("")));
    if (json_is_object(message)) json_object_del(message, "images");
    json_decref(parts);
}
