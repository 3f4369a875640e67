/* Command buffers: recording, submission, the batch of a step, and steps that are recorded once and
 * submitted again. */
#include "dev/vulkan/vulkan.h"

#include "base/clock.h"

#include <string.h>

/* ---- recording ---- */

static void begin(ft_vk *v, VkCommandBuffer cmd, VkCommandBufferUsageFlags flags)
{
    const VkCommandBufferBeginInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                           .flags = flags};
    ft_vk_check(v, vkBeginCommandBuffer(cmd, &info), "vkBeginCommandBuffer");
    v->cmd = cmd;
    v->staged = false;
    v->dirty = true; /* what was submitted before may still run */
}

/* Polls for as long as a decode step takes: a thread that sleeps wakes up later than the device is
 * done. */
static bool reached_soon(ft_vk *v, uint64_t value)
{
    enum { POLL_NS = 20000000 };
    const int64_t end = ft_now_ns() + POLL_NS;
    uint64_t now = 0;
    while (vkGetSemaphoreCounterValue(v->device, v->timeline, &now) == VK_SUCCESS && now < value)
        if (ft_now_ns() > end) return false;
    return now >= value;
}

static void wait_for(ft_vk *v, uint64_t value)
{
    const VkSemaphoreWaitInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
                                      .semaphoreCount = 1,
                                      .pSemaphores = &v->timeline,
                                      .pValues = &value};
    VkResult r = VK_TIMEOUT;
    if (v->error) return;
    if (!v->mapped && reached_soon(v, value)) return;
    while (r == VK_TIMEOUT) r = vkWaitSemaphores(v->device, &info, UINT64_MAX);
    ft_vk_check(v, r, "a step");
}

/* Opens a command buffer of the ring unless one is open; false after an error. */
static bool ready(ft_vk *v)
{
    if (v->error) return false;
    if (v->cmd) return true;
    v->ring_at = (v->ring_at + 1) % FT_VK_RING;
    wait_for(v, v->ring_value[v->ring_at]);
    begin(v, v->ring[v->ring_at], 0);
    return !v->error;
}

ft_vk_command *ft_vk_command_add(ft_vk *v, ft_vk_command_kind kind)
{
    if (!ready(v)) return NULL;
    if (v->n_list == v->cap_list)
        v->list = ft_realloc(v->list, sizeof *v->list * (size_t)(v->cap_list = 2 * v->n_list + 64));
    ft_vk_command *c = &v->list[v->n_list++];
    c->kind = kind;
    v->dirty = kind != FT_VK_BARRIER;
    return c;
}

void ft_vk_barrier(ft_vk *v)
{
    if (ready(v) && v->dirty) ft_vk_command_add(v, FT_VK_BARRIER);
}

void ft_vk_copy(ft_vk *v, VkBuffer from, VkBuffer to, VkBufferCopy part)
{
    ft_vk_barrier(v);
    ft_vk_command *c = ft_vk_command_add(v, FT_VK_COPY);
    if (!c) return;
    c->from = from;
    c->to = to;
    c->part = part;
}

void ft_vk_fill(ft_vk *v, VkBuffer to, uint64_t at, uint64_t bytes)
{
    ft_vk_barrier(v);
    ft_vk_command *c = ft_vk_command_add(v, FT_VK_FILL);
    if (!c) return;
    c->to = to;
    c->part = (VkBufferCopy){.dstOffset = at, .size = bytes};
}

/* copies: there are copies before or after it. */
static void write_barrier(VkCommandBuffer cmd, bool copies)
{
    VkPipelineStageFlags stages = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT;
    VkMemoryBarrier all = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                           .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT,
                           .dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT};
    if (copies) {
        stages |= VK_PIPELINE_STAGE_TRANSFER_BIT;
        all.srcAccessMask |= VK_ACCESS_TRANSFER_WRITE_BIT;
        all.dstAccessMask |= VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
    }
    vkCmdPipelineBarrier(cmd, stages, stages, 0, 1, &all, 0, NULL, 0, NULL);
}

static void write_dispatch(const ft_vk *v, VkCommandBuffer cmd, const ft_vk_command *c)
{
    vkCmdBindPipeline(cmd, VK_PIPELINE_BIND_POINT_COMPUTE, c->pipeline->pipeline);
    vkCmdPushConstants(cmd, v->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, c->push_bytes, c->push);
    vkCmdDispatch(cmd, c->grid[0], c->grid[1], c->grid[2]);
}

/* Whether the barrier at index i of the list separates dispatches from each other alone. The first
 * one also waits for command buffers that were submitted before. */
static bool between_dispatches(const ft_vk *v, int i)
{
    return i > 0 && i + 1 < v->n_list && v->list[i - 1].kind == FT_VK_DISPATCH &&
           v->list[i + 1].kind == FT_VK_DISPATCH;
}

static void write_commands(ft_vk *v, VkCommandBuffer cmd)
{
    ft_vk_pipelines_compile(v);
    for (int i = 0; i < v->n_list && !v->error; i++) {
        const ft_vk_command *c = &v->list[i];
        switch (c->kind) {
        case FT_VK_BARRIER: write_barrier(cmd, !between_dispatches(v, i)); break;
        case FT_VK_DISPATCH: write_dispatch(v, cmd, c); break;
        case FT_VK_COPY: vkCmdCopyBuffer(cmd, c->from, c->to, 1, &c->part); break;
        case FT_VK_FILL: vkCmdFillBuffer(cmd, c->to, c->part.dstOffset, c->part.size, 0); break;
        }
    }
    v->n_list = 0;
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

/* Writes the commands, makes what they wrote visible to the host, and closes the command buffer. */
static VkCommandBuffer end(ft_vk *v)
{
    VkCommandBuffer cmd = v->cmd;
    const VkMemoryBarrier all = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                                 .srcAccessMask = VK_ACCESS_MEMORY_WRITE_BIT,
                                 .dstAccessMask = VK_ACCESS_HOST_READ_BIT};
    write_commands(v, cmd);
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
    if (!to || !v->only) submit(v, &cmd, 1);
    if (!to) {
        v->ring_value[v->ring_at] = v->value;
        return;
    }
    to->value = v->value;
    if (!whole || v->keep_not || to == &v->loose) drop(v, to);
}

void ft_vk_flush(ft_vk *v)
{
    flush(v, false);
}

void ft_vk_wait(ft_vk *v)
{
    ft_vk_flush(v);
    wait_for(v, v->value);
    if (!v->n_kept) ft_vk_free_retired(v);
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
    n->draw = stage(v, b->draw, (size_t)b->T * sizeof *b->draw);
    n->draw_words = stage(v, b->draw_words, (size_t)b->n_draw_words * sizeof *b->draw_words);
    memcpy(v->batch_at, n, sizeof *n);
}

void ft_vk_record(ft_dev *d, const ft_batch *b)
{
    ft_vk *v = (ft_vk *)d;
    const size_t T = (size_t)b->T, i4 = sizeof(int32_t);
    const size_t draws = (b->draw ? T * sizeof *b->draw : 0) + (size_t)b->n_draw_words * i4;
    d->batch = b;
    v->again = NULL;
    v->shape = ft_batch_shape_of(b);
    ft_vk_batch_reserve(v, sizeof(ft_vk_batch) + (11 * T + (size_t)b->n_out) * i4 +
                               2 * (size_t)b->slots * (size_t)b->pages_per_seq * i4 +
                               sizeof(ft_span) * (T + (size_t)b->S + 1) + draws + 22 * 16);
    if (v->staged || v->keeping) ft_vk_flush(v); /* a command buffer of the ring has one batch */
    if (!ready(v) || !v->batch_bytes) return;
    const size_t at = (size_t)v->ring_at * v->batch_bytes;
    v->batch_at = v->batch_stage.host + at;
    stage_batch(v, b);
    ft_vk_copy(v, v->batch_stage.buffer, v->batch_mem.buffer, (VkBufferCopy){at, 0, v->batch_used});
    v->staged = true;
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
    ft_vk_wait(v);
}

static uint32_t hash_of(const ft_vk *v, const void *pass)
{
    const ft_batch_shape *s = &v->shape;
    const ft_batch *b = v->dev.batch;
    const uint64_t words[] = {(uint64_t)(uintptr_t)pass, (uint64_t)s->T << 32 | (uint32_t)s->n_out,
                              (uint64_t)s->S << 32 | (uint32_t)s->rows,
                              (uint64_t)s->ctx << 32 | (uint32_t)b->pages_per_seq,
                              (uint64_t)kind_of(b)};
    uint64_t h = 0;
    for (size_t i = 0; i < FT_COUNT(words); i++) h = (h ^ words[i]) * 0x9e3779b97f4a7c15u;
    return (uint32_t)(h >> 32);
}

/* NULL: this shape has not occurred yet. */
static ft_vk_step *find_step(ft_vk *v, const void *pass, uint32_t hash)
{
    const int32_t kind = kind_of(v->dev.batch), pages = v->dev.batch->pages_per_seq;
    for (int i = 0; i < v->n_kept; i++) {
        ft_vk_step *s = &v->kept[i];
        if (v->hash[i] == hash && s->pass == pass && ft_batch_shape_same(&s->shape, &v->shape) &&
            s->kind == kind && s->pages_per_seq == pages)
            return s;
    }
    return NULL;
}

/* The step of this shape; a new one replaces the least recently used one if need be. */
static ft_vk_step *step_of(ft_vk *v, const void *pass)
{
    const uint32_t hash = hash_of(v, pass);
    ft_vk_step *s = find_step(v, pass, hash);
    int at = 0;
    if (!s) {
        if (v->n_kept < FT_VK_KEPT)
            at = v->n_kept++;
        else
            for (int i = 1; i < FT_VK_KEPT; i++)
                if (v->kept[i].used < v->kept[at].used) at = i;
        s = &v->kept[at];
        drop(v, s);
        *s = (ft_vk_step){.pass = pass,
                          .shape = v->shape,
                          .pages_per_seq = v->dev.batch->pages_per_seq,
                          .kind = kind_of(v->dev.batch)};
        v->hash[at] = hash;
    }
    s->used = ++v->clock;
    return s;
}

/* What is recorded from here on until the commit is kept in this step. */
static void keep(ft_vk *v, ft_vk_step *s)
{
    const VkCommandBufferAllocateInfo info = {.sType =
                                                  VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                              .commandPool = v->pool,
                                              .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                              .commandBufferCount = 1};
    ft_vk_flush(v);
    drop(v, s);
    if (!v->error)
        ft_vk_check(v, vkAllocateCommandBuffers(v->device, &info, &s->cmd), "command buffers");
    if (v->error) return;
    begin(v, s->cmd, VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT);
    v->keeping = s;
    v->keep_not = false;
}

/* The first step of a shape that was not captured at start-up is recorded to run once, the second
 * one to be kept. */
bool ft_vk_replay(ft_dev *d, const void *pass)
{
    ft_vk *v = (ft_vk *)d;
    const bool few = v->shape.T <= FT_SHAPE_ROWS;
    d->uncaptured = false;
    if (v->error || (!few && !v->only)) return false;
    ft_vk_step *s = few ? step_of(v, pass) : &v->loose;
    if (s->cmd) {
        VkCommandBuffer both[2];
        uint32_t n = 0;
        const bool open = v->cmd != NULL;
        if (open) both[n++] = end(v);
        if (!v->only) both[n++] = s->cmd;
        if (n) submit(v, both, n);
        if (open) v->ring_value[v->ring_at] = v->value;
        s->value = v->value;
        return true;
    }
    d->uncaptured = !v->only;
    if (!v->only && s->seen++ == 0) return false;
    keep(v, s);
    return false;
}

/* After an error nothing runs any more: it is the same as if all were captured. */
bool ft_vk_captured(ft_dev *d, const void *pass)
{
    ft_vk *v = (ft_vk *)d;
    const ft_vk_step *s = find_step(v, pass, hash_of(v, pass));
    return v->error || (s && s->cmd);
}

void ft_vk_capture_pass(ft_dev *d, const void *pass)
{
    ft_vk *v = (ft_vk *)d;
    if (!v->error) keep(v, pass ? step_of(v, pass) : &v->loose);
}

void ft_vk_capture(ft_dev *d, bool on)
{
    ((ft_vk *)d)->only = on;
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
    v->hash = ft_new_n(uint32_t, FT_VK_KEPT);
    return !v->error || ft_vk_sync(&v->dev, err) == FT_OK;
}

void ft_vk_steps_close(ft_vk *v)
{
    ft_vk_buffer_close(v, &v->batch_stage);
    ft_vk_buffer_close(v, &v->batch_mem);
    vkDestroySemaphore(v->device, v->timeline, NULL);
    vkDestroyCommandPool(v->device, v->pool, NULL);
    ft_free(v->kept);
    ft_free(v->hash);
    ft_free(v->list);
}
