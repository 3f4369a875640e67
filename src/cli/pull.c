/* cli/pull.c - foretoken pull: downloads a model, or lists local copies. */
#include "base/mem.h"
#include "cli/cmd.h"
#include "cli/hub.h"

#include <stdio.h>
#include <string.h>

typedef struct totals {
    int files;
    uint64_t bytes;
} totals;

static void show(void *user, const char *repo, const char *file, uint64_t bytes, bool whole)
{
    totals *t = user;
    printf("%-40s %-48s %9.2f GiB%s\n", repo, file, (double)bytes / 1073741824.0,
           whole ? "" : "  (incomplete)");
    t->files++;
    t->bytes += bytes;
}

int ft_pull_list(void)
{
    ft_err err;
    totals t = {0};
    char *folder;
    if (ft_hub_folder(&folder, &err) || ft_hub_each(show, &t, &err)) return ft_die(&err);
    printf("%d files, %.2f GiB in %s\n", t.files, (double)t.bytes / 1073741824.0, folder);
    ft_free(folder);
    return 0;
}

int ft_cmd_pull(const ft_opts *o)
{
    ft_err err;
    ft_hub_name name;
    char *path, *mmproj = NULL;
    ft_hub_set_token(ft_opts_text(o, "hf-token"));
    if (ft_opts_flag(o, "list")) return ft_pull_list();
    if (ft_opts_n_word(o) != 1) {
        ft_fail(&err, FT_EINVAL, "pull has %d names, want one: USER/NAME[:QUANT] (or --list)",
                ft_opts_n_word(o));
        return ft_die(&err);
    }
    if (ft_hub_parse(&name, ft_opts_word(o, 0), ft_opts_text(o, "hf-file"), &err) ||
        ft_hub_take(&name, ft_opts_flag(o, "offline"), ft_opts_flag(o, "quiet"), &path,
                    ft_opts_flag(o, "no-mmproj") ? NULL : &mmproj, &err))
        return ft_die(&err);
    puts(path);
    ft_free(path);
    ft_free(mmproj);
    return 0;
}
