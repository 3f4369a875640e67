#define _GNU_SOURCE
#include "cli/serve_sandbox.h"

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sandbox.h"
#include "base/str.h"
#include "cli/hub.h"

#include <string.h>
#include <sys/stat.h>

enum { MAX_FOLDERS = 1024 };

typedef struct folders {
    char *at[MAX_FOLDERS];
    int n;
} folders;

static void put(folders *f, char *path)
{
    for (int i = 0; i < f->n; i++)
        if (!strcmp(f->at[i], path) || f->n == MAX_FOLDERS) {
            ft_free(path);
            return;
        }
    f->at[f->n++] = path;
}

static ft_status put_folder(folders *f, const char *path, ft_err *err)
{
    if (!path) return FT_OK;
    const ft_status st = ft_folder_private(path, err);
    if (!st) put(f, ft_strdup(path));
    return st;
}

/* The folder of a file that is written or a socket that is made. */
static void put_parent(folders *f, const char *path)
{
    if (!path) return;
    char *p = ft_strdup(path), *slash = strrchr(p, '/');
    if (slash) slash[slash == p] = 0;
    put(f, slash ? p : ft_strdup("."));
    if (!slash) ft_free(p);
}

/* Where models are fetched to; its parents may not be there yet. */
static ft_status put_models(folders *f, ft_err *err)
{
    char *path;
    ft_status st = ft_hub_folder(&path, err);
    if (st) return st;
    for (char *s = strchr(path + 1, '/'); s; s = strchr(s + 1, '/')) {
        *s = 0;
        mkdir(path, 0700); /* what fails here fails below */
        *s = '/';
    }
    st = put_folder(f, path, err);
    ft_free(path);
    return st;
}

static void say(const ft_sandboxed *got, bool fetches)
{
    if (got->files && got->calls && (got->network || fetches)) return;
    ft_log(FT_LOG_INFO, "sandbox: this kernel does not restrict%s%s%s",
           got->files ? "" : " files (Landlock)", got->network || fetches ? "" : " connections",
           got->calls ? "" : " system calls (seccomp)");
}

ft_status ft_serve_sandbox(const ft_opts *o, const ft_serve_list *l, ft_err *err)
{
    folders f = {.n = 0};
    ft_sandboxed got;
    bool fetches = ft_opts_flag(o, "manage-models");
    const char *host = ft_opts_text(o, "host");
    ft_status st = put_folder(&f, ft_opts_text(o, "slot-save-path"), err);
    if (!st) st = put_folder(&f, ft_opts_text(o, "log-prompts-dir"), err);
    for (int i = 0; i < l->n && !st; i++) {
        const ft_opts *own = l->at[i].o;
        st = put_folder(&f, ft_opts_text(own, "cache-dir"), err);
        put_parent(&f, ft_opts_text(own, "lookup-cache-dynamic"));
        fetches |= ft_opts_text(own, "hf-repo") && !ft_opts_flag(own, "offline");
    }
    if (host && ft_str_ends(ft_str_of(host), FT_STR(".sock"))) put_parent(&f, host);
    if (!st && fetches) st = put_models(&f, err);
    fetches |= ft_opts_text(o, "allow-image-urls") != NULL;
    const ft_sandbox s = {(const char *const *)f.at, f.n, fetches};
    if (!st) st = ft_sandbox_enter(&s, &got, err);
    if (!st) say(&got, fetches);
    for (int i = 0; i < f.n; i++) ft_free(f.at[i]);
    return st;
}
