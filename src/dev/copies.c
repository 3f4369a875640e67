#include "dev/copies.h"

#include "base/mem.h"

void ft_copies_add(ft_copies *c, void *host, void *device, size_t bytes)
{
    if (c->n == c->room) {
        c->room = FT_MAX((size_t)64, 2 * c->room);
        c->list = ft_realloc(c->list, c->room * sizeof *c->list);
    }
    c->list[c->n++] = (ft_copy){host, device, bytes};
}

void ft_copies_run(ft_copies *c)
{
    ft_dev *d = c->dev;
    const bool together = c->n && d->copy_list;
    if (together) d->copy_list(d, c->list, c->n, c->in);
    for (size_t i = 0; i < c->n && !together; i++) {
        const ft_copy *k = &c->list[i];
        if (c->in)
            d->upload(d, k->device, k->host, k->bytes);
        else
            d->download(d, k->host, k->device, k->bytes);
    }
    ft_free(c->list);
    c->list = NULL;
    c->n = c->room = 0;
}
