/* tests/unit/ranks.c - the ranks of an MPI job: which of them fit together, and messages that are
 * cut off or use memory that a rank does not have. */
#include "unit.h"

#include "base/mem.h"
#include "dev/remote_serve_priv.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

static ft_rank_hello hello(const char *host, const char *version)
{
    ft_rank_hello h = {.magic = FT_RANK_MAGIC};
    snprintf(h.info.host, sizeof h.info.host, "%s", host);
    snprintf(h.info.version, sizeof h.info.version, "%s", version);
    return h;
}

static void same_version(void **state)
{
    char why[300] = "";
    ft_rank_hello all[] = {hello("a", "1.0"), hello("b", "1.0"), hello("c", "1.0")};
    (void)state;
    assert_true(ft_ranks_alike(all, 3, why, sizeof why));
    assert_string_equal(why, "");
    all[2] = hello("c", "1.1");
    assert_false(ft_ranks_alike(all, 3, why, sizeof why));
    assert_string_equal(why, "rank 2 (c) is foretoken 1.1, rank 0 is 1.0");
    memset(all[1].info.version, 'x', sizeof all[1].info.version); /* without an end */
    memset(all[1].info.host, 'y', sizeof all[1].info.host);
    assert_false(ft_ranks_alike(all, 3, why, sizeof why));
    assert_memory_equal(why, "rank 1 (yyy", 11);
}

static void byte_order(void **state)
{
    char why[300] = "";
    ft_rank_hello all[] = {hello("a", "1.0"), hello("b", "1.0")};
    (void)state;
    all[1].magic = __builtin_bswap32(all[1].magic);
    assert_false(ft_ranks_alike(all, 2, why, sizeof why));
    assert_string_equal(why, "rank 1 has another byte order than rank 0");
}

/* ---- commands ---- */

typedef struct message {
    unsigned char b[512];
    size_t n;
} message;

static void put(message *m, const void *p, size_t n)
{
    if (n) memcpy(m->b + m->n, p, n);
    m->n += n;
}

static void put_op(message *m, uint32_t op, int n, const uint64_t *args)
{
    put(m, &op, sizeof op);
    put(m, args, sizeof *args * (size_t)n);
}

static ft_mat mat_at(uintptr_t p, int T, int d)
{
    return (ft_mat){.p = (float *)p, .T = T, .H = 1, .d = d, .rs = d, .hs = d};
}

/* A device with 64 bytes at 4096; then the message. */
static void expect(const message *m, const char *error)
{
    ft_remote_server s;
    message first = {.n = 0};
    ft_serve_init(&s, &(ft_remote_params){.device = "cpu", .threads = 1});
    put_op(&first, FT_REMOTE_OPEN, 0, NULL);
    put_op(&first, FT_REMOTE_ALLOC, 2, (uint64_t[]){4096, 64});
    assert_true(ft_serve_message(&s, first.b, first.n));
    assert_int_equal(s.failed, FT_OK);
    assert_true(ft_serve_message(&s, m->b, m->n));
    assert_string_equal(s.failed ? s.error.text : "", error);
    ft_serve_release(&s);
}

static void wrong_commands(void **state)
{
    static const char outside[] = "a command of rank 0 uses memory that is not allocated";
    message m = {.n = 0};
    (void)state;
    put_op(&m, FT_REMOTE_MOVE, 3, (uint64_t[]){4096, 4096 + 32, 32});
    expect(&m, "");
    for (size_t n = 1; n < m.n; n++) {
        message cut = m;
        cut.n = n;
        expect(&cut, "a command of rank 0 is cut off");
    }
    m.n = 0;
    put_op(&m, FT_REMOTE_MOVE, 3, (uint64_t[]){4096, 4096 + 33, 32});
    expect(&m, outside);
    m.n = 0;
    put_op(&m, FT_REMOTE_READ, 2, (uint64_t[]){4096, UINT64_MAX});
    expect(&m, outside);
    m.n = 0;
    put_op(&m, FT_REMOTE_ALLOC, 2, (uint64_t[]){4100, 8});
    expect(&m, "rank 0 allocates memory that it has already");
    m.n = 0;
    put_op(&m, FT_REMOTE_OPEN, 0, NULL);
    expect(&m, "rank 0 opens a device twice");
    m.n = 0;
    put_op(&m, 9999, 0, NULL);
    expect(&m, "rank 0 sent a command that does not exist");
    m.n = 0;
    const ft_mat far = mat_at(4096, 3, 8);
    const float c = 1;
    put_op(&m, FT_REMOTE_SOFTCAP, 0, NULL);
    put(&m, &far, sizeof far);
    put(&m, &c, sizeof c);
    expect(&m, outside);
}

/* A flag of a matrix is a byte from another process: anything but 0 is refused. */
static void wrong_flags(void **state)
{
    (void)state;
    for (int byte = 1; byte < 256; byte++) {
        message m = {.n = 0};
        ft_mat y = mat_at(4096, 2, 8);
        const float c = 1;
        memset((char *)&y + offsetof(ft_mat, operand), byte, 1);
        put_op(&m, FT_REMOTE_SOFTCAP, 0, NULL);
        put(&m, &y, sizeof y);
        put(&m, &c, sizeof c);
        expect(&m, "a step of rank 0 has wrong sizes");
    }
}

/* expert_linear reads a choice for each row of y: 4 of them, the weights from `w` on. */
static void put_expert_linear(message *m, uintptr_t w)
{
    const ft_mat y = mat_at(4096, 4, 1), x = mat_at(4096, 2, 1);
    const ft_remote_weight none = {0};
    const ft_expert_choice c = {(int32_t *)(uintptr_t)4096, (float *)w, 2};
    m->n = 0;
    put_op(m, FT_REMOTE_EXPERT_LINEAR, 0, NULL);
    put(m, &y, sizeof y);
    put(m, &x, sizeof x);
    put(m, &none, sizeof none);
    put(m, &c, sizeof c);
    put(m, "", 1);
}

static void wrong_choices(void **state)
{
    message m;
    (void)state;
    put_expert_linear(&m, 4096 + 52);
    expect(&m, "a command of rank 0 uses memory that is not allocated");
    put_expert_linear(&m, 4096 + 48);
    expect(&m, "a step of rank 0 has wrong sizes"); /* there is no weight */
}

static void put_kept(message *m, uint32_t op, uint32_t number, int n, const uint64_t *args)
{
    put(m, &op, sizeof op);
    put(m, &number, sizeof number);
    put(m, args, sizeof *args * (size_t)n);
}

/* Copies that stay with a rank. */
static void kept_copies(void **state)
{
    static const char none[] = "rank 0 uses a copy that does not exist";
    static const char beyond[] = "rank 0 uses bytes that a copy does not have";
    message m = {.n = 0};
    (void)state;
    put_kept(&m, FT_REMOTE_KEEP, 3, 1, (uint64_t[]){48});
    put_kept(&m, FT_REMOTE_KEEP_SAVE, 3, 3, (uint64_t[]){16, 4096, 32});
    put_kept(&m, FT_REMOTE_KEEP_LOAD, 3, 3, (uint64_t[]){16, 4096 + 32, 32});
    put_kept(&m, FT_REMOTE_KEEP_CUT, 3, 1, (uint64_t[]){16});
    put_kept(&m, FT_REMOTE_KEEP_READ, 3, 1, (uint64_t[]){32});
    const message kept = m;
    expect(&m, "");
    put_kept(&m, FT_REMOTE_KEEP_READ, 3, 1, (uint64_t[]){33});
    expect(&m, beyond);
    m = kept;
    put_kept(&m, FT_REMOTE_KEEP_SAVE, 3, 3, (uint64_t[]){8, 4096, 32});
    expect(&m, beyond);
    m = kept;
    put_kept(&m, FT_REMOTE_KEEP_LOAD, 3, 3, (uint64_t[]){UINT64_MAX, 4096, 8});
    expect(&m, beyond);
    m = kept;
    put_kept(&m, FT_REMOTE_KEEP, 3, 1, (uint64_t[]){8});
    expect(&m, "rank 0 makes a copy that it has already");
    m = kept;
    put_kept(&m, FT_REMOTE_KEEP_FREE, 3, 0, NULL);
    put_kept(&m, FT_REMOTE_KEEP_READ, 3, 1, (uint64_t[]){8});
    expect(&m, none);
    m.n = 0;
    put_kept(&m, FT_REMOTE_KEEP, 5, 1, (uint64_t[]){UINT64_MAX / 2});
    expect(&m, "rank 0 makes a copy that is too large");
    m.n = 0;
    put_kept(&m, FT_REMOTE_KEEP_CUT, 4000000000u, 1, (uint64_t[]){8});
    expect(&m, none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_version),   cmocka_unit_test(byte_order),
        cmocka_unit_test(wrong_commands), cmocka_unit_test(wrong_flags),
        cmocka_unit_test(wrong_choices),  cmocka_unit_test(kept_copies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
