#define _GNU_SOURCE
#include "base/sandbox.h"

#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- Landlock, whose header may be older than the kernel ---- */

#ifndef __NR_landlock_create_ruleset
#define __NR_landlock_create_ruleset 444
#define __NR_landlock_add_rule       445
#define __NR_landlock_restrict_self  446
#endif

enum {
    LL_VERSION = 1,
    LL_RULE_PATH = 1,
    LL_EXECUTE = 1 << 0,
    LL_WRITE = 1 << 1,
    LL_REMOVE_DIR = 1 << 4,
    LL_REMOVE_FILE = 1 << 5,
    LL_MAKE_CHAR = 1 << 6,
    LL_MAKE_DIR = 1 << 7,
    LL_MAKE_REG = 1 << 8,
    LL_MAKE_SOCK = 1 << 9,
    LL_MAKE_FIFO = 1 << 10,
    LL_MAKE_BLOCK = 1 << 11,
    LL_MAKE_SYM = 1 << 12,
    LL_REFER = 1 << 13,    /* version 2 */
    LL_TRUNCATE = 1 << 14, /* version 3 */
    LL_CONNECT = 1 << 1,   /* of the network; version 4 */
};

typedef struct ruleset {
    uint64_t files, network;
} ruleset;

typedef struct path_rule {
    uint64_t allowed;
    int32_t fd;
} __attribute__((packed)) path_rule;

static uint64_t writing(long version)
{
    uint64_t all = LL_EXECUTE | LL_WRITE | LL_REMOVE_DIR | LL_REMOVE_FILE | LL_MAKE_CHAR |
                   LL_MAKE_DIR | LL_MAKE_REG | LL_MAKE_SOCK | LL_MAKE_FIFO | LL_MAKE_BLOCK |
                   LL_MAKE_SYM;
    if (version >= 2) all |= LL_REFER;
    if (version >= 3) all |= LL_TRUNCATE;
    return all;
}

static bool allow_folder(int set, const char *path, uint64_t rights)
{
    const int fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0) return errno == ENOENT; /* what is not there needs no rule */
    const path_rule rule = {rights, fd};
    const bool ok = !syscall(__NR_landlock_add_rule, set, LL_RULE_PATH, &rule, 0);
    close(fd);
    return ok;
}

static ft_status restrict_files(const ft_sandbox *s, ft_sandboxed *out, ft_err *err)
{
    static const char *const always[] = {"/dev", "/proc"};
    const long version = syscall(__NR_landlock_create_ruleset, NULL, 0, LL_VERSION);
    if (version < 1) return FT_OK;
    const bool network = version >= 4 && !s->connect;
    const ruleset rules = {writing(version), network ? LL_CONNECT : 0};
    const uint64_t device = rules.files & (LL_WRITE | LL_TRUNCATE);
    const uint64_t own = rules.files & ~(uint64_t)(LL_EXECUTE | LL_MAKE_CHAR | LL_MAKE_BLOCK);
    const size_t size = version >= 4 ? sizeof rules : sizeof rules.files;
    const int set = (int)syscall(__NR_landlock_create_ruleset, &rules, size, 0);
    if (set < 0) return ft_fail_errno(err, "Landlock");
    bool ok = true;
    for (size_t i = 0; i < FT_COUNT(always) && ok; i++) ok = allow_folder(set, always[i], device);
    for (int i = 0; i < s->n_folder && ok; i++)
        ok = !s->folder[i] || allow_folder(set, s->folder[i], own);
    ok = ok && !syscall(__NR_landlock_restrict_self, set, 0);
    const ft_status st = ok ? FT_OK : ft_fail_errno(err, "Landlock");
    close(set);
    out->files = ok;
    out->network = ok && network;
    return st;
}

/* ---- seccomp ---- */

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#endif

#if defined(__SANITIZE_ADDRESS__)
#define LEAKS 1 /* the search for leaks stops the process with ptrace */
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LEAKS 1
#endif
#endif

/* Calls that no part of a server makes: programs, other processes, the system itself. */
static const int refused[] = {
    __NR_execve,
    __NR_execveat,

#ifndef LEAKS
    __NR_ptrace,
#endif

    __NR_process_vm_readv,
    __NR_process_vm_writev,
    __NR_mount,
    __NR_umount2,
    __NR_pivot_root,
    __NR_chroot,
    __NR_setns,
    __NR_unshare,
    __NR_reboot,
    __NR_swapon,
    __NR_swapoff,
    __NR_init_module,
    __NR_finit_module,
    __NR_delete_module,
    __NR_kexec_load,
    __NR_bpf,
    __NR_perf_event_open,
    __NR_keyctl,
    __NR_add_key,
    __NR_request_key,
    __NR_userfaultfd,
    __NR_settimeofday,
    __NR_clock_settime,
    __NR_clock_adjtime,
    __NR_adjtimex,
    __NR_sethostname,
    __NR_setdomainname,
    __NR_acct,
    __NR_quotactl,
    __NR_syslog,
    __NR_personality,
    __NR_open_by_handle_at,
    425 /* io_uring_setup: its requests would not be looked at */,
};

static ft_status restrict_calls(ft_sandboxed *out, ft_err *err)
{
#ifdef ARCH
    enum { N = FT_COUNT(refused) };
    struct sock_filter f[N + 6];
    int n = 0;
    f[n++] =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
    f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH, 0, N + 3);
    f[n++] =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    /* numbers of the x32 ABI */
    f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, N + 1, 0);
    for (int i = 0; i < N; i++)
        f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)refused[i],
                                              (uint8_t)(N - i), 0);
    f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
    const struct sock_fprog program = {(unsigned short)n, f};
    const long rc =
        syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
    if (rc && (errno == ENOSYS || errno == EINVAL || errno == EPERM)) return FT_OK; /* without it */
    if (rc) return ft_fail_errno(err, "seccomp");
    out->calls = true;
#else
    (void)refused, (void)out, (void)err;
#endif
    return FT_OK;
}

ft_status ft_sandbox_enter(const ft_sandbox *s, ft_sandboxed *out, ft_err *err)
{
    *out = (ft_sandboxed){0};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return ft_fail_errno(err, "no_new_privs");
    const ft_status st = restrict_files(s, out, err);
    return st ? st : restrict_calls(out, err);
}
