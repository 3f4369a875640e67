/* api/ranks.c - the processes of an MPI job: rank 0 opens models and generates, the others compute
 * layers for it (dev/remote.h). */
#include "api/model.h"
#include "base/mem.h"
#include "base/pool.h"
#include "dev/remote.h"

#include <stdio.h>

ft_status ft_ranks_start(int *rank, int *ranks, ft_err *err)
{
    const ft_status st = ft_link_open(ft_version(), err);
    *rank = ft_link_rank();
    *ranks = ft_link_size();
    return st;
}

void ft_ranks_end(void)
{
    if (!ft_link_rank()) ft_remote_end();
    ft_link_close();
}

int ft_rank_threads(int threads)
{
    const ft_rank_info *own = ft_link_info(ft_link_rank());
    if (threads > 0 || own->local_size < 2) return threads;
    /* mpirun may have bound each rank to cores of its own */
    const int here = ft_cpu_count(), all = ft_cpu_online();
    return here < all ? here : FT_MAX(1, all / own->local_size);
}

const char *ft_rank_device(char name[24], const char *device)
{
    const ft_rank_info *own = ft_link_info(ft_link_rank());
    const int gpus = ft_dev_gpus();
    if (strcmp(device, "auto") || ft_link_size() < 2 || !gpus) return device;
    snprintf(name, 24, "cuda:%d", own->local_rank % gpus);
    return name;
}

ft_status ft_ranks_serve(const struct ft_llm_params *p, ft_err *err)
{
    char name[24];
    if (strchr(p->device, ','))
        return ft_fail(err, FT_EINVAL,
                       "rank %d: --device %.80s, want one device for each rank of an MPI job",
                       ft_link_rank(), p->device);
    const ft_remote_params r = {.device = ft_rank_device(name, p->device),
                                .threads = ft_rank_threads(p->threads),
                                .own = p->model ? p->model : ft_default_model()};
    return ft_remote_serve(&r, err);
}
