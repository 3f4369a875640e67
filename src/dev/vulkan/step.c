/* Command buffers: recording, submission, the batch of a step, and steps that are recorded once and
 * submitted again. */
#include "dev/vulkan/vulkan.h"

#include <string.h>

/* ---- recording ---- */

static void begin(ft_vk *v, VkCommandBuffer cmd, VkCommandBufferUsageFlags flags)
{
    const VkCommandBufferBeginInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                           .flags = flags};
    ft_vk_check(v, vkBeginCommandBuffer(cmd, &info), "vkBeginCommandBuffer");
    v->cmd = cmd;
    v->dirty = true; /* what was submitted before may still run */
}

static void wait_for(ft_vk *v, uint64_t value)
{
    const VkSemaphoreWaitInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
                                      .semaphoreCount = 1,
                                      .pSemaphores = &v->timeline,
                                      .pValues = &value};
    if (!v->error) ft_vk_check(v, vkWaitSemaphores(v->device, &info, UINT64_MAX), "a step");
}

VkCommandBuffer ft_vk_cmd(ft_vk *v)
{
    if (v->error) return NULL;
    if (v->cmd) return v->cmd;
    v->ring_at = (v->ring_at + 1) % FT_VK_RING;
    wait_for(v, v->ring_value[v->ring_at]);
    begin(v, v->ring[v->ring_at], 0);
    return v->error ? NULL : v->cmd;
}

void ft_vk_barrier(ft_vk *v)
{
    VkCommandBuffer cmd = ft_vk_cmd(v);
    const VkPipelineStageFlags stages =
        VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
    const VkMemoryBarrier all = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT,
        .dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT |
                         VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT};
    if (!cmd || !v->dirty) return;
    vkCmdPipelineBarrier(cmd, stages, stages | VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &all, 0, NULL, 0,
                         NULL);
    v->dirty = false;
}

/* ---- submission ---- */

static void submit(ft_vk *v, const VkCommandBuffer *cmd, uint32_t n)
{
    const uint64_t value = v->value + 1;
    const VkTimelineSemaphoreSubmitInfo order = {
        .sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
        .signalSemaphoreValueCount = 1,
        .pSignalSemaphoreValues = &value};
    const VkSubmitInfo info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                               .pNext = &order,
                               .commandBufferCount = n,
                               .pCommandBuffers = cmd,
                               .signalSemaphoreCount = 1,
                               .pSignalSemaphores = &v->timeline};
    if (v->error) return;
    ft_vk_check(v, vkQueueSubmit(v->queue, 1, &info, VK_NULL_HANDLE), "vkQueueSubmit");
    if (!v->error) v->value = value;
}

/* Makes what was written visible to the host, and closes the open command buffer. */
static VkCommandBuffer end(ft_vk *v)
{
    VkCommandBuffer cmd = v->cmd;
    const VkMemoryBarrier all = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                                 .srcAccessMask = VK_ACCESS_MEMORY_WRITE_BIT,
                                 .dstAccessMask = VK_ACCESS_HOST_READ_BIT};
    vkCmdPipelineBarrier(cmd, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_PIPELINE_STAGE_HOST_BIT, 0, 1,
                         &all, 0, NULL, 0, NULL);
    ft_vk_check(v, vkEndCommandBuffer(cmd), "vkEndCommandBuffer");
    v->cmd = NULL;
    return cmd;
}

static void drop(ft_vk *v, ft_vk_step *s)
{
    if (!s->cmd) return;
    wait_for(v, s->value);
    vkFreeCommandBuffers(v->device, v->pool, 1, &s->cmd);
    s->cmd = NULL;
}

/* whole: the open command buffer is all of a step. A part of one is not kept. */
static void flush(ft_vk *v, bool whole)
{
    if (!v->cmd) return;
    ft_vk_step *to = v->keeping;
    VkCommandBuffer cmd = end(v);
    v->keeping = NULL;
    submit(v, &cmd, 1);
    if (!to) {
        v->ring_value[v->ring_at] = v->value;
        return;
    }
    to->value = v->value;
    if (!whole || v->keep_not) drop(v, to);
}

void ft_vk_flush(ft_vk *v)
{
    flush(v, false);
}

void ft_vk_wait(ft_vk *v)
{
    ft_vk_flush(v);
    wait_for(v, v->value);
    if (v->n_retired) ft_vk_free_retired(v);
}

ft_status ft_vk_sync(ft_dev *d, ft_err *err)
{
    ft_vk *v = (ft_vk *)d;
    ft_vk_wait(v);
    if (!v->error) return FT_OK;
    const bool memory =
        v->error == VK_ERROR_OUT_OF_DEVICE_MEMORY || v->error == VK_ERROR_OUT_OF_HOST_MEMORY;
    return ft_fail(err, memory ? FT_ENOMEM : FT_EIO, "device %s (%s) failed in %s: %s", d->name,
                   v->props.deviceName, v->where, ft_vk_error_name(v->error));
}

/* ---- the batch ---- */

static uint64_t stage(ft_vk *v, const void *src, size_t bytes)
{
    if (!src) return 0;
    const uint64_t to = v->batch_mem.address + v->batch_used;
    if (bytes) memcpy(v->batch_at + v->batch_used, src, bytes);
    v->batch_used += ft_round_up(bytes, 16);
    return to;
}

static uint64_t stage_ints(ft_vk *v, const int32_t *src, int n)
{
    return stage(v, src, (size_t)n * sizeof *src);
}

void ft_vk_batch_reserve(ft_vk *v, size_t bytes)
{
    if (bytes <= v->batch_bytes) return;
    ft_vk_wait(v);
    ft_vk_drop_kept(v);
    ft_vk_buffer_close(v, &v->batch_stage);
    ft_vk_buffer_close(v, &v->batch_mem);
    bytes = ft_round_up(bytes + bytes / 2, 256);
    v->batch_bytes = 0;
    ft_vk_check(v, ft_vk_buffer_open(v, &v->batch_stage, FT_VK_RING * bytes, true), "the batch");
    ft_vk_check(v, ft_vk_buffer_open(v, &v->batch_mem, bytes, false), "the batch");
    if (!v->error) v->batch_bytes = bytes;
}

/* Surplus spans of the shape are empty. */
static uint64_t stage_spans(ft_vk *v, const ft_batch *b)
{
    const size_t own = sizeof(ft_span) * (size_t)b->S, all = sizeof(ft_span) * (size_t)v->shape.S;
    const uint64_t to = stage(v, b->span, own);
    if (!to || all <= own) return to;
    const size_t from = v->batch_used - ft_round_up(own, 16) + own;
    memset(v->batch_at + from, 0, all - own);
    v->batch_used += ft_round_up(all, 16) - ft_round_up(own, 16);
    return to;
}

static void stage_batch(ft_vk *v, const ft_batch *b)
{
    const int pages = b->slots * b->pages_per_seq;
    ft_vk_batch *n = &v->batch;
    v->batch_used = ft_round_up(sizeof *n, 16);
    *n = (ft_vk_batch){.T = b->T, .S = v->shape.S, .n_out = b->n_out};
    n->pages_per_seq = b->pages_per_seq;
    n->drawn = ft_vk_address(b->drawn);
    for (int i = 0; i < 2; i++) n->page[i] = stage_ints(v, b->page[i], pages);
    for (int i = 0; i < 3; i++) n->pos[i] = stage_ints(v, b->pos[i], b->T);
    n->token = stage_ints(v, b->token, b->T);
    n->cell = stage_ints(v, b->cell, b->T);
    n->end = stage_ints(v, b->end, b->T);
    n->span_of = stage_ints(v, b->span_of, b->T);
    n->src_row = stage_ints(v, b->src_row, b->T);
    n->dst_row = stage_ints(v, b->dst_row, b->T);
    n->image_row = stage_ints(v, b->image_row, b->T);
    n->ahead = stage_ints(v, b->ahead, b->T);
    n->out_row = stage_ints(v, b->out_row, b->n_out);
    n->span = stage_spans(v, b);
    memcpy(v->batch_at, n, sizeof *n);
}

void ft_vk_record(ft_dev *d, const ft_batch *b)
{
    ft_vk *v = (ft_vk *)d;
    const size_t T = (size_t)b->T, i4 = sizeof(int32_t);
    d->batch = b;
    v->again = NULL;
    v->shape = ft_batch_shape_of(b);
    ft_vk_batch_reserve(v, sizeof(ft_vk_batch) + (11 * T + (size_t)b->n_out) * i4 +
                               2 * (size_t)b->slots * (size_t)b->pages_per_seq * i4 +
                               sizeof(ft_span) * (T + (size_t)b->S + 1) + 20 * 16);
    ft_vk_flush(v); /* a staging buffer belongs to a command buffer of the ring */
    VkCommandBuffer cmd = ft_vk_cmd(v);
    if (!cmd || !v->batch_bytes) return;
    const size_t at = (size_t)v->ring_at * v->batch_bytes;
    v->batch_at = v->batch_stage.host + at;
    stage_batch(v, b);
    ft_vk_barrier(v);
    const VkBufferCopy part = {at, 0, v->batch_used};
    vkCmdCopyBuffer(cmd, v->batch_stage.buffer, v->batch_mem.buffer, 1, &part);
    v->dirty = true;
}

/* ---- steps that are submitted again ---- */

static int32_t kind_of(const ft_batch *b)
{
    return (b->image_row ? 1 : 0) | (b->ahead ? 2 : 0) | (b->draw ? 4 : 0) | b->sampled << 3;
}

void ft_vk_drop_kept(ft_vk *v)
{
    if (v->keeping) ft_vk_flush(v);
    for (int i = 0; i < v->n_kept; i++) drop(v, &v->kept[i]);
    v->n_kept = 0;
}

static ft_vk_step *step_of(ft_vk *v, const void *pass)
{
    const int32_t kind = kind_of(v->dev.batch), pages = v->dev.batch->pages_per_seq;
    ft_vk_step *old = v->kept;
    for (int i = 0; i < v->n_kept; i++) {
        ft_vk_step *s = &v->kept[i];
        if (s->pass == pass && ft_batch_shape_same(&s->shape, &v->shape) && s->kind == kind &&
            s->pages_per_seq == pages)
            return s;
        if (s->used < old->used) old = s;
    }
    if (v->n_kept < FT_VK_KEPT) old = &v->kept[v->n_kept++];
    drop(v, old);
    *old = (ft_vk_step){.pass = pass, .shape = v->shape, .pages_per_seq = pages, .kind = kind};
    return old;
}

/* The first step of a shape is recorded to run once, the second one to be kept. */
bool ft_vk_replay(ft_dev *d, const void *pass)
{
    ft_vk *v = (ft_vk *)d;
    if (v->error || !v->cmd || v->shape.T > FT_SHAPE_ROWS) return false;
    ft_vk_step *s = step_of(v, pass);
    s->used = ++v->clock;
    if (s->cmd) {
        const VkCommandBuffer both[2] = {end(v), s->cmd};
        submit(v, both, 2);
        v->ring_value[v->ring_at] = s->value = v->value;
        return true;
    }
    if (s->seen++ == 0) return false;
    const VkCommandBufferAllocateInfo info = {.sType =
                                                  VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                              .commandPool = v->pool,
                                              .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                              .commandBufferCount = 1};
    ft_vk_flush(v);
    ft_vk_check(v, vkAllocateCommandBuffers(v->device, &info, &s->cmd), "command buffers");
    if (v->error) return false;
    begin(v, s->cmd, VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT);
    v->keeping = s;
    v->keep_not = false;
    return false;
}

void ft_vk_commit(ft_dev *d)
{
    ft_vk *v = (ft_vk *)d;
    if (v->again) submit(v, &v->again, 1);
    if (!v->cmd) return;
    v->again = d->keep_ops ? v->cmd : NULL;
    flush(v, true);
}

/* ---- open and close ---- */

bool ft_vk_steps_open(ft_vk *v, ft_err *err)
{
    const VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                          .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
                                          .queueFamilyIndex = v->family};
    const VkSemaphoreTypeCreateInfo type = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
                                            .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
    const VkSemaphoreCreateInfo semaphore = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO,
                                             .pNext = &type};
    ft_vk_check(v, vkCreateCommandPool(v->device, &pool, NULL, &v->pool), "vkCreateCommandPool");
    const VkCommandBufferAllocateInfo info = {.sType =
                                                  VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                              .commandPool = v->pool,
                                              .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                              .commandBufferCount = FT_VK_RING};
    if (!v->error)
        ft_vk_check(v, vkAllocateCommandBuffers(v->device, &info, v->ring), "command buffers");
    if (!v->error)
        ft_vk_check(v, vkCreateSemaphore(v->device, &semaphore, NULL, &v->timeline), "a semaphore");
    v->kept = ft_new_n(ft_vk_step, FT_VK_KEPT);
    return !v->error || ft_vk_sync(&v->dev, err) == FT_OK;
}

void ft_vk_steps_close(ft_vk *v)
{
    ft_vk_buffer_close(v, &v->batch_stage);
    ft_vk_buffer_close(v, &v->batch_mem);
    vkDestroySemaphore(v->device, v->timeline, NULL);
    vkDestroyCommandPool(v->device, v->pool, NULL);
    ft_free(v->kept);
}
