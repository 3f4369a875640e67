/* api/devices.c - the devices of a model: --device, --split-mode, --main-gpu. */
#include "api/model.h"
#include "base/mem.h"
#include "base/pool.h"
#include "dev/remote.h"

#include <stdio.h>
#include <strings.h>

/* Threads of each CPU device: they compute at the same time. */
static int threads_each(const ft_llm_params *p)
{
    int n = 0;
    for (const char *at = p->device; at; at = strchr(at, ',')) {
        at += *at == ',';
        n += !strncasecmp(at, "cpu", 3) || !strncasecmp(at, "none", 4);
    }
    return p->threads > 0 || n < 2 ? p->threads : FT_MAX(1, ft_cpu_count() / n);
}

static ft_status add_device(ft_llm *m, const char *name, int threads, ft_err *err)
{
    ft_dev *d = NULL;
    if (m->dev && m->n_more + 2 >= FT_SPLIT_MAX)
        return ft_fail(err, FT_EINVAL, "more than %d devices", FT_SPLIT_MAX - 2);
    const ft_status st = ft_dev_open(&d, name, threads, err);
    if (st) return st;
    if (m->dev)
        m->more[m->n_more++] = d;
    else
        m->dev = d;
    return FT_OK;
}

/* All GPUs, or one of them; the CPU where there is none. */
static ft_status open_auto(ft_llm *m, const ft_llm_params *p, bool one, ft_err *err)
{
    const int n = ft_dev_gpus(), first = one ? p->main_gpu : 0;
    char name[24];
    if (n < 2 && !first) return add_device(m, "auto", p->threads, err);
    ft_status st = FT_OK;
    for (int i = first; i < (one ? first + 1 : n) && !st; i++) {
        snprintf(name, sizeof name, "cuda:%d", i);
        st = add_device(m, name, p->threads, err);
    }
    m->all_gpus = m->n_more > 0;
    return st;
}

/* The devices of an MPI job: that of this rank, and one of each other rank. */
static ft_status open_ranks(ft_llm *m, const ft_llm_params *p, ft_err *err)
{
    char name[24];
    if (strchr(p->device, ','))
        return ft_fail(err, FT_EINVAL,
                       "--device %.80s, want one device for each rank of an MPI job", p->device);
    ft_remote_model(m->path);
    ft_status st = add_device(m, ft_rank_device(name, p->device), p->threads, err);
    for (int i = 1; i < ft_link_size() && !st; i++)
        if (!(st = ft_dev_remote(&m->more[m->n_more], i, err))) m->n_more++;
    return st;
}

ft_status ft_llm_open_devices(ft_llm *m, const ft_llm_params *p, ft_err *err)
{
    if (ft_link_size() > 1) return open_ranks(m, p, err);
    const char *mode = p->split_mode ? p->split_mode : "layer";
    const bool one = !strcmp(mode, "none");
    if (!one && strcmp(mode, "layer") && strcmp(mode, "expert"))
        return ft_fail(err, FT_EINVAL, "split mode \"%.40s\", want layer, expert or none", mode);
    if (!strcmp(p->device, "auto")) return open_auto(m, p, one, err);
    const int threads = one ? p->threads : threads_each(p);
    char *list = ft_strdup(p->device);
    ft_status st = FT_OK;
    int i = 0;
    for (char *at = list, *next; at && !st; at = next, i++) {
        if ((next = strchr(at, ','))) *next++ = 0;
        if (!one || i == p->main_gpu || (!i && !next)) st = add_device(m, at, threads, err);
    }
    if (!st && !m->dev)
        st = ft_fail(err, FT_EINVAL, "main GPU %d of the devices %.80s, want 0 to %d", p->main_gpu,
                     p->device, i - 1);
    ft_free(list);
    return st;
}

static double gib(uint64_t bytes)
{
    return (double)bytes / (1 << 30);
}

/* "cuda:1: NVIDIA H200, discrete GPU, 139.8 GiB, 139.1 GiB free, driver ..., ..." */
static void describe(char *to, size_t cap, const char *kind, int index, const ft_dev_info *d)
{
    char number[16] = "", unused[32] = "";
    if (index) snprintf(number, sizeof number, ":%d", index);
    if (d->free) snprintf(unused, sizeof unused, ", %.1f GiB free", gib(d->free));
    snprintf(to, cap, "%s%s: %s, %s, %.1f GiB%s%s%s, %s%s%s", kind, number, d->name, d->kind,
             gib(d->bytes), unused, d->driver[0] ? ", driver " : "", d->driver, d->features,
             d->lacks[0] ? "; cannot be used without " : "", d->lacks);
}

bool ft_device_at(int i, char *to, size_t cap)
{
    const int gpus = ft_dev_gpus(), k = i - 1 - gpus;
    ft_dev_info d;
    if (!i) {
        ft_dev_cpu_info(&d);
        describe(to, cap, "cpu", 0, &d);
    } else if (i <= gpus) {
        if (!ft_dev_cuda_info(i - 1, &d)) return false;
        describe(to, cap, "cuda", i - 1, &d);
    } else {
        if (!ft_dev_vulkan_info(k, &d)) return false;
        describe(to, cap, "vulkan", k, &d);
    }
    return true;
}
